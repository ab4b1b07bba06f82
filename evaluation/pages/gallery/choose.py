"""Which runs the gallery shows: for each scenario and severity one seed, with its twin and its cure."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import JOINT, RunKind
from trainwreck.evaluation.scoring.run_labels import scored

SEVERITIES = ("", "subtle", "clear", "severe")
SHOWN = (RunKind.FAILING.value, RunKind.LOOK_ALIKE.value, RunKind.LATENT.value)
PRIVATE = "private"  # whose labels nobody is to see


@dataclass(frozen=True)
class Exhibit:
    """One run to show. place: of its data set among those given. twin, cured: rows of the runs table, or None."""

    place: int
    dataset: DataSet
    faulty: pd.Series
    twin: pd.Series | None
    cured: pd.Series | None

    @property
    def rows(self) -> list[pd.Series]:
        """The rows that are known, the twin first: the others are packed as their differences from it."""
        return [row for row in (self.twin, self.faulty, self.cured) if row is not None]

    @property
    def missing(self) -> int:
        """How many of twin and cure are not there. A look-alike has no cure, one without a twin is its own."""
        own_cure = self.faulty["kind"] == RunKind.LOOK_ALIKE.value
        own_twin = not self.faulty["twin_id"]
        return (self.twin is None and not own_twin) + (self.cured is None and not own_cure)


def exhibits(datasets: Sequence[DataSet]) -> dict[str, list[Exhibit]]:
    """Scenario to its exhibits, one a severity, mildest first; by id.

    Of several runs the one with twin and cure, then one that was harmed before a latent one, then one that is scored
    before one of the train split, then the data set that was given first, then the smallest seed. Compound runs
    and those of the private split are left out.
    """
    best: dict[tuple[str, str], tuple[tuple[int, ...], Exhibit]] = {}
    for place, dataset in enumerate(datasets):
        measured = set(dataset.runs.index[scored(dataset.runs)])
        for exhibit in _candidates(place, dataset):
            row = exhibit.faulty
            key = (str(row["scenario"]), str(row["severity"]))
            latent = row["kind"] == RunKind.LATENT.value
            rank = (exhibit.missing, int(latent), int(row["run_id"] not in measured), place, int(row["seed"]))
            if key not in best or rank < best[key][0]:
                best[key] = (rank, exhibit)
    found: dict[str, list[Exhibit]] = {}
    for scenario, severity in sorted(best, key=lambda key: (key[0], SEVERITIES.index(key[1]))):
        found.setdefault(scenario, []).append(best[scenario, severity][1])
    return found


def _candidates(place: int, dataset: DataSet) -> list[Exhibit]:
    runs = dataset.runs[dataset.runs["split"] != PRIVATE]
    shown = runs[runs["kind"].isin(SHOWN) & ~runs["scenario"].str.contains(JOINT, regex=False)]
    cured = runs[runs["kind"] == RunKind.CURED.value]
    cure_of = {_same(row): row for _, row in cured.iterrows()}
    return [
        Exhibit(
            place,
            dataset,
            row,
            runs.loc[row["twin_id"]] if row["twin_id"] in runs.index else None,
            cure_of.get(_same(row)),
        )
        for _, row in shown.iterrows()
    ]


def _same(row: pd.Series) -> tuple[str, ...]:
    """What a run and its cure have in common."""
    return tuple(str(row[name]) for name in ("scenario", "base", "severity", "seed"))
