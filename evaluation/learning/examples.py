"""The rows that the learned detector is trained on: every run as each observation profile shows it, with a target.

    run                  quiet                          left out                     alarm
    healthy, look-alike  all rows
    failing, compound    before s                       s to v; all from s on where  from v on, v as the
                                                        the profile never shows it   profile shows it
    cured                before s, and `SETTLE` steps   in between
                         after the cure
    latent, not shown                                   all rows

s is the onset and v the visible step (docs/scoring.md). Between the two the failure cannot be detected, and a run that
was not harmed is neither quiet nor an alarm.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, UNHARMED, RunKind
from trainwreck.evaluation.detectors.learned.features import NAMES, Features
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.profiles import PROFILES, observe, visible_step
from trainwreck.evaluation.replay.rows import rows

SETTLE = 30  # steps
THINNED = 5  # of the full profile one row in so many is kept: neighbours are all but the same
QUIET, ALARM, LEFT_OUT = 0, 1, -1


@dataclass(frozen=True)
class Examples:
    """Rows of many runs, by run, then profile, then step.

    values: [N, F] float32, F = len(features.NAMES). run: [N], position in `runs`. profile: [N], position in
    `profiles`. step: [N]. target: [N], QUIET, ALARM or LEFT_OUT.
    """

    runs: pd.DataFrame
    values: np.ndarray
    run: np.ndarray
    profile: np.ndarray
    step: np.ndarray
    target: np.ndarray
    profiles: tuple[str, ...] = tuple(PROFILES)

    def __len__(self) -> int:
        return len(self.run)


def examples(dataset: DataSet, runs: pd.DataFrame, tick: Tick | None = None) -> Examples:
    """Replay runs under every profile and keep what the detector would have read off. runs: of the runs table."""
    values, run, profile, steps, targets = [], [], [], [], []
    for i, (run_id, facts) in enumerate(runs.iterrows()):
        everything = [dict(row) for row in rows(dataset.trace(str(run_id)))]
        for j, name in enumerate(PROFILES):
            features, kept, taken = Features(), [], []
            for number, row in enumerate(observe(everything, name)):
                seen = features.see(row)
                if name != "full" or (number + i) % THINNED == 0:
                    kept.append(seen)
                    taken.append(row["step"])
            values.append(np.array(kept, dtype=np.float32).reshape(-1, len(NAMES)))
            run.append(np.full(len(taken), i))
            profile.append(np.full(len(taken), j))
            steps.append(np.array(taken, dtype=np.int64))
            targets.append(target(facts, name, steps[-1]))
        if tick is not None:
            tick(i + 1, len(runs), str(run_id))
    table, which, shown, at, wanted = (np.concatenate(part) for part in (values, run, profile, steps, targets))
    return Examples(runs, table, which, shown, at, wanted)


def target(run: pd.Series, profile: str, steps: np.ndarray) -> np.ndarray:
    """What the detector should say at each step of a run. run: a row of the runs table; steps: [R]. [R] int8"""
    kind = run["kind"]
    if kind in UNHARMED:
        return np.full(len(steps), LEFT_OUT, dtype=np.int8)
    if kind not in (*FAILURES, RunKind.CURED.value):
        return np.full(len(steps), QUIET, dtype=np.int8)
    found = np.where(steps < run["onset_step"], QUIET, LEFT_OUT)
    if kind == RunKind.CURED.value:
        found[steps >= run["cure_step"] + SETTLE] = QUIET
    else:
        visible = visible_step(run, profile)
        if visible is not None:
            found[steps >= visible] = ALARM
    return found.astype(np.int8)
