"""Entries that use a shortcut: what may tell that a run fails without showing how. The harness makes them.

    base_alone   knows the base of a run, which no detector is shown; its score is the share of failing runs of that
                 base in the train split
    first_rows   a boosted classifier of the first rows, that of the leak audit, trained on the train split; its score
                 is the probability that the run fails

Each gives a run one score, from the step on that `clock` is tuned to, and 0 before; first_rows not before it has seen
them. All that they add to `clock` is which runs to alarm: on a plan with as many healthy runs as failing ones for every
base, base_alone is no better than it. They are trained on the labels of the train split alone.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import nan
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.detectors.base import QUIET, Context, Detector, Row, Verdict
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.first_rows import FIRST, Facts, boosted, frame, one_thread, summary
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.replay import SHORTCUTS as NAMES
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.scoring.run_labels import NEGATIVES

BASE_ALONE, FIRST_ROWS = SHORTCUTS = NAMES
TRAIN = "train"
LIKELY = 0.5  # probability, where both classes weigh alike


class FromStep(Detector):
    """One score from a step on, 0 before."""

    def __init__(self, step: int, score: float, alarm: bool) -> None:
        self.step, self.verdict = step, Verdict(score, alarm)

    def update(self, row: Row) -> Verdict:
        return self.verdict if row["step"] >= self.step else QUIET


class FromFirstRows(Detector):
    """The probability that a classifier gives to the first rows, from a step on, 0 before. Silent in a shorter log."""

    def __init__(self, step: int, model: Any, names: Collection[str]) -> None:
        self.step, self.model, self.names = step, model, names

    def reset(self, context: Context | None) -> None:
        self.first: list[Row] = []
        self.verdict = QUIET

    def update(self, row: Row) -> Verdict:
        if len(self.first) < FIRST:
            self.first.append(row)
            if len(self.first) == FIRST:
                facts = summary(self.first)
                with one_thread():
                    score = self.model.predict_proba([[facts.get(name, nan) for name in self.names]])[0, 1]
                self.verdict = Verdict(score, score > LIKELY)
        return self.verdict if row["step"] >= self.step else QUIET


@dataclass(frozen=True)
class Shortcut:
    """An entry, tuned to a data set. about: what a board shows of it."""

    about: dict[str, Any]
    step: int

    def maker(self, run: pd.Series, profile: str) -> Callable[[], Detector]:
        """What `replay` makes a run's detector with. run: its row of the runs table, of which no label is read."""
        raise NotImplementedError


@dataclass(frozen=True)
class BaseAlone(Shortcut):
    """shares: of failing runs, by base; overall: of all bases, which stands for a base that is not among them."""

    shares: Mapping[str, float]
    overall: float

    def maker(self, run: pd.Series, profile: str) -> Callable[[], Detector]:
        share = self.shares.get(run["base"], self.overall)
        return partial(FromStep, self.step, share, share > self.overall)


@dataclass(frozen=True)
class FirstRows(Shortcut):
    """models: classifier and names of its features, by profile."""

    models: Mapping[str, tuple[Any, Collection[str]]]

    def maker(self, run: pd.Series, profile: str) -> Callable[[], Detector]:
        return partial(FromFirstRows, self.step, *self.models[profile])


def tunable(runs: pd.DataFrame) -> bool:
    """Whether the train split has failing runs and others. runs: the runs table."""
    return _train(runs)["failing"].nunique() == 2


def left_out(runs: pd.DataFrame) -> str:
    """One line that names the entries that no board of a data set has; empty where there are none."""
    if tunable(runs):
        return ""
    return f"not on the board: {', '.join(SHORTCUTS)} (no train split with failing and healthy runs to tune them on)"


def tuned(
    dataset: DataSet, names: Collection[str], step: int, profiles: Collection[str], k: int
) -> dict[str, Shortcut]:
    """Those of `SHORTCUTS` that are among names. step: of `clock`. k: steps between thinned rows.

    InputError where the train split has no failing runs, or no others.
    """
    wanted = [name for name in SHORTCUTS if name in names]
    if not wanted:
        return {}
    if not tunable(dataset.runs):
        raise InputError(f"detector {wanted[0]}: there is no train split with failing and healthy runs to tune it on")
    train = _train(dataset.runs)
    made: dict[str, Shortcut] = {}
    if BASE_ALONE in wanted:
        shares = {str(base): float(share) for base, share in train.groupby("base")["failing"].mean().items()}
        overall = float(train["failing"].mean())
        rule = f"the share of failing runs of its base in the train split, from step {step} on"
        made[BASE_ALONE] = BaseAlone(_about(rule, "everything but the base"), step, shares, overall)
    if FIRST_ROWS in wanted:
        models = _classifiers(dataset, train, profiles, k)
        rule = f"a boosted classifier of the first {FIRST} rows, trained on the train split, from step {step} on"
        made[FIRST_ROWS] = FirstRows(_about(rule, f"everything after the first {FIRST} rows"), step, models)
    return made


def _about(rule: str, blind_spots: str) -> dict[str, Any]:
    return {"rule": rule, "source": "sanity entry", "blind_spots": blind_spots}


def _train(runs: pd.DataFrame) -> pd.DataFrame:
    """Base of the runs of the train split that fail or must not be alarmed, and whether they fail."""
    train = runs[(runs["split"] == TRAIN) & runs["kind"].isin([*FAILURES, *NEGATIVES])]
    return train[["base"]].assign(failing=train["kind"].isin(FAILURES))


def _classifiers(
    dataset: DataSet, train: pd.DataFrame, profiles: Collection[str], k: int
) -> dict[str, tuple[Any, list[str]]]:
    found: dict[str, dict[str, Facts]] = {profile: {} for profile in profiles}
    for run_id in train.index:
        trace = dataset.trace(run_id)
        for profile in profiles:
            seen = observe(rows(trace), profile, k=k, run_id=run_id, objective=trace.objective)
            found[profile][run_id] = summary(islice(seen, FIRST))
    tables = {profile: frame(by_run, train.index) for profile, by_run in found.items()}
    label = train["failing"].to_numpy()
    return {profile: (boosted(table.to_numpy(), label), list(table.columns)) for profile, table in tables.items()}
