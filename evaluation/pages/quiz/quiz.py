"""A quiz with its answers: the runs with their labels, and the alarms of each detector on them."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.registry import builtin_detectors, without_libraries
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.pages.quiz.draw import draw
from trainwreck.evaluation.pages.quiz.recipe import Recipe
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.alarms import OK, Alarms
from trainwreck.evaluation.replay.profiles import shown_steps
from trainwreck.evaluation.replay.unlabelled import refuse_imported

BAR = ("never", "always")  # what a quiz is to be better than
BLIND = (*BAR, "clock", "periodic", "random", "step_fraction")

LABELS = (
    "run_id", "scenario", "cause", "causes", "family", "kind", "split", "held_out", "severity", "seed", "base",
    "planned_steps", "last_step", "onset_step", "visible_step", "visible_steps", "visible_profiles", "no_return_step",
    "outcome", "final_gap", "twin_id",
)  # fmt: skip
"""Columns of the runs table that scores and the truth of a run take."""


@dataclass(frozen=True)
class Said:
    """Alarms of a detector, or a player, on one run; a detector's at its published default. first: None for none."""

    first: int | None
    edges: tuple[int, ...]
    causes: tuple[str, ...]
    status: str


@dataclass(frozen=True)
class Quiz:
    """runs: their labels in the order of play, by run_id. said: detector to run_id. families: cause to its family."""

    recipe: Recipe
    runs: pd.DataFrame
    said: Mapping[str, Mapping[str, Said]]
    rules: Mapping[str, str]
    families: Mapping[str, str]

    def shown(self, run_id: str) -> range:
        """Steps of the rows that a run has under the quiz's profile."""
        return shown_steps(self.recipe.profile, int(self.runs["last_step"].loc[run_id]))


def default_detectors() -> list[str]:
    """Every built-in detector that needs no library and reads its inputs, and the two of `BAR`."""
    with without_libraries():
        return [name for name in builtin_detectors() if name not in BLIND or name in BAR]


def make(
    dataset: DataSet,
    recipe: Recipe,
    families: Mapping[str, str],
    detectors: Sequence[str] | None = None,
    tick: Tick | None = None,
) -> Quiz:
    """Draw the runs of a recipe and replay detectors on them (None: `default_detectors`).

    families: of the causes that may be named. InputError for a recipe that the data set can't serve.
    """
    refuse_imported(dataset, "asked about")
    runs = dataset.runs.loc[draw(dataset.runs, recipe)]
    drawn = DataSet(dataset.path, dataset.manifest, runs)
    with without_libraries() if detectors is None else nullcontext():
        names = default_detectors() if detectors is None else list(detectors)
        cards = score_all(drawn, names, profiles=[recipe.profile], progress=tick) if names else []
    alarms = {
        card.detector: {
            one.run_id: Said(one.first_alarm, tuple(one.edges.tolist()), one.causes, one.status) for one in card.alarms
        }
        for card in cards
    }
    rules = {card.detector: str(card.about.get("rule", "")) for card in cards}
    return Quiz(recipe, runs[list(LABELS)], alarms, rules, dict(families))


def spoken(run_id: str, shown: range, said: Said) -> Alarms:
    """Alarms as scores take them. The score is 0 until the first alarm, and 1 from there on."""
    steps = np.array(shown if said.status == OK else (), dtype=np.int64)
    alarm = np.zeros(len(steps), dtype=bool) if said.first is None else steps >= said.first
    return Alarms(
        run_id=run_id,
        steps=steps,
        scores=alarm.astype(np.float64),
        alarm=alarm,
        edges=np.array(said.edges, dtype=np.int64),
        first_alarm=said.first,
        causes=said.causes,
        status=said.status,
        update_us=0.0,
        state_bytes=None,
    )


def label(value: Any) -> Any:
    """A cell of the runs table as JSON has it: integers for steps, None for what is missing."""
    if value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA:
        return None
    if isinstance(value, (float, np.floating)):
        return int(value) if float(value).is_integer() else float(value)
    return value.item() if isinstance(value, np.generic) else value
