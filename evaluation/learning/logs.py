"""The trees that judge a public log: from the train splits of one or several data sets.

Rows are those of the profiles that a public log is like: `common`, `minimal`, and `logged` in three ways for each run.
Features are those of `log_features`; where more of one can only be worse the trees are held to it (`RISING`).
Healthy runs whose fp16 gradients overflow by design are left out: without the loss scale nobody could tell.

What the threshold and the record go by is held out by healthy setup, all runs of a setup together: a threshold from
other seeds of the same setup says little of a log of somebody else. `BUDGET` of the quiet runs of held-out setups may
be stopped, under the worst of the profiles. With fewer setups than folds seeds are held out.

The score is the mean over `MODELS` fits that differ in what is drawn: on public logs, few as they are, one fit finds a
tenth more or less than the next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import LARGEST_SCORE
from trainwreck.evaluation.detectors.learned.log_features import FALLING, NAMES, RISING, LogFeatures
from trainwreck.evaluation.detectors.learned.model import LogTrees
from trainwreck.evaluation.detectors.learned.smoothing import SmoothedRows
from trainwreck.evaluation.detectors.learned.trees import Trees
from trainwreck.evaluation.learning.examples import LEFT_OUT, Examples, target
from trainwreck.evaluation.learning.fitted_trees import mean_of
from trainwreck.evaluation.learning.judging import recalls, smoothed
from trainwreck.evaluation.learning.training import about, boosted, default_threshold, harder, train_runs, weights
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.profiles import LOGGED, observe
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.evaluation.scoring.run_labels import NEGATIVES, overflows

# What the rows of a run are shown as: a name, the profile, and what is added to the run's name for another draw.
SHOWN = (("common", "common", ""), ("minimal", "minimal", ""), *((f"{LOGGED} {i}", LOGGED, f"/{i}") for i in range(3)))
FOLDS = 5
MODELS = 5
FITS = 2 * FOLDS + 1
BOOSTING: dict[str, Any] = {
    "max_iter": 100,
    "learning_rate": 0.1,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 60,
    "max_features": 0.4,
    "monotonic_cst": [(name in RISING) - (name in FALLING) for name in NAMES],
}
Done = Callable[[int, str], None]


def learn_logs(datasets: Sequence[DataSet], tick: Tick | None = None) -> LogTrees:
    """Train on the train splits. InputError for a data set without one, or with too few runs or seeds in it.

    The same data sets in the same order give the same trees on one machine. tick: called for runs replayed, then fits.
    """
    for dataset in datasets:
        refuse_imported(dataset, "learned from")
    chosen = [(dataset, _used(train_runs(dataset))) for dataset in datasets]
    replayed = sum(len(runs) for _, runs in chosen)
    each = max(1, replayed // FITS)

    def told(done: int, note: str) -> None:
        if tick is not None:
            tick(done, replayed + FITS * each, note)

    found, ended = log_examples(chosen, told)
    trees, threshold, smooth = fit_logs(found, ended, lambda number, note: told(replayed + number * each, note))
    facts = {
        "data_sets": [about(dataset, runs) for dataset, runs in chosen],
        "setups": int(found.runs["base"].nunique()),
        "held_out": recalls(found, smooth),
    }
    return LogTrees(trees, threshold, facts)


def log_examples(
    chosen: Sequence[tuple[DataSet, pd.DataFrame]], told: Done = lambda done, note: None
) -> tuple[Examples, np.ndarray]:
    """Replay runs of data sets as logs show them; and which rows have a loss that is not finite or 0, [N] bool.

    Every row is kept, so that averages and peaks are those of the detector. values: of `log_features.NAMES`.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    number = 0
    for dataset, runs in chosen:
        for run_id, facts in runs.iterrows():
            everything = [dict(row) for row in rows(dataset.trace(str(run_id)))]
            for shown_as, (_, profile, other) in enumerate(SHOWN):
                label = pd.Series({**facts, "run_id": f"{run_id}{other}"})
                values, steps, ended = _replayed(observe(everything, profile, run_id=label["run_id"]))
                wanted = np.where(ended, LEFT_OUT, target(label, profile, steps)).astype(np.int8)
                parts.append((values, np.full(len(steps), number), np.full(len(steps), shown_as), steps, wanted, ended))
            number += 1
            told(number, f"replay {run_id}")
    values, run, place, step, wanted, ended = (np.concatenate(part) for part in zip(*parts, strict=True))
    names = tuple(name for name, _, _ in SHOWN)
    return Examples(pd.concat([runs for _, runs in chosen]), values, run, place, step, wanted, names), ended


def fit_logs(
    found: Examples, ended: np.ndarray, told: Done = lambda number, note: None
) -> tuple[Trees, float, np.ndarray]:
    """Trees, threshold, and the score of each row when its setup was held out, [N]. ended: of `log_examples`."""
    weight, used = weights(found), found.target != LEFT_OUT
    fold = setup_folds(found.runs)[found.run]
    smooth = np.zeros(len(found))

    def fitted(here: np.ndarray) -> Trees:
        given = found.values[here].astype(np.float64), found.target[here], weight[here]
        return mean_of([boosted(*given, seed=seed, **BOOSTING) for seed in range(MODELS)])

    for turn in range(2):
        scores = np.zeros(len(found))
        for held in range(FOLDS):
            told(turn * FOLDS + held, f"setups held out {held + 1} of {FOLDS}, turn {turn + 1} of 2")
            here = fold == held
            if here.any():
                scores[here] = fitted(used & ~here).many(found.values[here].astype(np.float64))
        smooth = smoothed(found, scores, SmoothedRows)
        if turn == 0:
            weight = harder(found, weight, smooth)
    told(2 * FOLDS, "the trees")
    trees, threshold = fitted(used), default_threshold(found, smooth)
    told(FITS, "done")
    return trees, threshold, np.where(ended, LARGEST_SCORE, smooth)


def setup_folds(runs: pd.DataFrame) -> np.ndarray:
    """Which fold each run is held out in: all runs of a setup together, or of a seed where setups are too few. [R]"""
    by = "base" if runs["base"].nunique() >= FOLDS else "seed"
    _, group = np.unique(runs[by].to_numpy(), return_inverse=True)
    return np.asarray(group % FOLDS)


def _used(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[~(overflows(runs, LOGGED) & runs["kind"].isin(NEGATIVES).to_numpy())]


def _replayed(seen: Iterable[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, steps, and whether the loss is not finite or 0, of each row."""
    features = LogFeatures()
    values, steps, losses = [], [], []
    for row in seen:
        values.append(features.see(row))
        steps.append(row["step"])
        losses.append(1.0 if row.get("loss") is None else row["loss"])
    loss = np.array(losses, dtype=np.float64)
    table = np.array(values, dtype=np.float32).reshape(-1, len(NAMES))
    return table, np.array(steps, dtype=np.int64), ~np.isfinite(loss) | (loss == 0.0)
