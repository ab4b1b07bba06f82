"""A board as `leaderboard --out` wrote it, with what is resampled and carried over: its files, written and read.

detections.parquet   of each failed run the chance that a detector finds it in time, by operating point
thresholds.parquet   of a synthetic board: each detector's thresholds by share of healthy runs stopped, with chances
peaks.parquet        of a board of real runs: the largest score of each detector on each healthy run
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation.constants import BUDGETS, CLUSTERS, RESAMPLES
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import write_parquet
from trainwreck.evaluation.scoring.metrics.bootstrap import ratio

if TYPE_CHECKING:
    import pandas as pd

DETECTIONS, THRESHOLDS, PEAKS = "detections.parquet", "thresholds.parquet", "peaks.parquet"
KEYS = ("profile", "detector", "run_id", "cluster", "weight")


class Board:
    """A board at one operating point. recall: detector to in-time recall, without those that have none."""

    def __init__(self, path: Path, profile: str | None, column: str, found: str) -> None:
        self.path, self.found = path, found
        file = _table_file(path)
        table = _read(file)
        _require(file, table, ("detector", "profile", column))
        profiles = sorted(map(str, table["profile"].unique()))
        if profile is None and len(profiles) > 1:
            raise InputError(f"profile: {file} has several; allowed: one of {', '.join(profiles)}")
        if profile is not None and profile not in profiles:
            raise unknown("profile", profile, profiles)
        self.profile = profile or next(iter(profiles), "")
        table = table[table["profile"] == self.profile]
        twice = table["detector"][table["detector"].duplicated()]
        if len(twice):
            raise InputError(f"{file}: {twice.iloc[0]!r} a second time under {self.profile}; allowed: each once")
        self.recall: dict[str, float] = {}
        for name, value in zip(table["detector"].tolist(), table[column].tolist(), strict=True):
            try:
                number = math.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise InputError(f"{file}: {column} of {name!r} is {value!r}; allowed: a number") from None
            if not math.isnan(number):
                self.recall[str(name)] = number
        self.names = sorted(self.recall, key=lambda name: (-self.recall[name], name))

    @cached_property
    def _runs(self) -> "pd.DataFrame | None":
        table = self._table(DETECTIONS, (*KEYS, self.found))
        return None if table is None else table[table["profile"] == self.profile]

    @cached_property
    def _cluster(self) -> "pd.DataFrame | None":
        """Cluster and weight by run."""
        return None if self._runs is None else self._runs.drop_duplicates("run_id").set_index("run_id").sort_index()

    @property
    def clusters(self) -> int:
        """How many clusters there are to resample; 0 where the runs are not known."""
        return 0 if self._cluster is None else int(self._cluster["cluster"].nunique())

    def notes(self) -> list[str]:
        """What is missing for an interval."""
        if self._runs is None:
            return [f"{self.path} has no {DETECTIONS}, so that the interval does not contain its uncertainty"]
        few = self.clusters < CLUSTERS
        return [f"{self.path}: failed runs in {self.clusters} clusters can't rank detectors"] if few else []

    def parts(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Of each cluster the sum of weighted detections, and of weights. [C, D], [C]"""
        assert self._runs is not None
        assert self._cluster is not None
        wide = self._runs.pivot_table(index="run_id", columns="detector", values=self.found).sort_index()
        missing = [name for name in names if name not in wide or wide[name].isna().any()]
        if missing or not wide.index.equals(self._cluster.index):
            name = missing[0] if missing else names[0]
            raise InputError(f"{self.path / DETECTIONS}: runs of {name!r} are missing; allowed: as it was written")
        _, index = np.unique(self._cluster["cluster"].astype(str), return_inverse=True)
        weights = self._cluster["weight"].to_numpy(np.float64)
        top, bottom = np.zeros((self.clusters, len(names))), np.zeros(self.clusters)
        np.add.at(top, index, wide[list(names)].to_numpy(np.float64) * weights[:, None])
        np.add.at(bottom, index, weights)
        return top, bottom

    def resampled(self, names: Sequence[str], seed: int) -> np.ndarray:
        """Recall of each detector on resamples of clusters; as it is where the runs are not known. [S, D]"""
        if self._runs is None:
            return np.tile([self.recall[name] for name in names], (RESAMPLES, 1))
        top, bottom = self.parts(names)
        random, count = np.random.default_rng(seed), self.clusters
        drawn = random.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES).astype(np.float64)
        return ratio(drawn @ top, (drawn @ bottom)[:, None])

    def thresholds(self, name: str, budget: str) -> tuple[np.ndarray, np.ndarray]:
        """Levels of a detector's threshold for a share of healthy runs stopped, and their chances; empty without."""
        table = self._thresholds
        if table is None:
            return np.zeros(0), np.zeros(0)
        own = table[(table["profile"] == self.profile) & (table["detector"] == name) & (table["point"] == budget)]
        return own["level"].to_numpy(np.float64), own["chance"].to_numpy(np.float64)

    @cached_property
    def _thresholds(self) -> "pd.DataFrame | None":
        return self._table(THRESHOLDS, ("profile", "detector", "point", "level", "chance"))

    @cached_property
    def peaks(self) -> "pd.DataFrame | None":
        """Largest score of each detector on each healthy run, -inf without one; None of a board without real runs."""
        return self._table(PEAKS, ("detector", "run_id", "cluster", "peak"))

    def _table(self, name: str, columns: Sequence[str]) -> "pd.DataFrame | None":
        file = self.path / name
        if not (self.path.is_dir() and file.is_file()):
            return None
        table = _read(file)
        _require(file, table, columns)
        return table


def write_detections(out: Path, parts: Sequence[Mapping[str, Any]]) -> Path:
    """Write what a board's resamples are made of: one row a profile, detector and failed run.

    parts: one a profile and detector, with both, and a list for `run_id`, `cluster`, each `found_...` (the chance that
    the run is found in time at an operating point) and, where runs do not count the same, `weight`.
    """
    whole = [{"weight": [1.0] * len(part["run_id"])} | dict(part) for part in parts]
    return _write_by_run(out / DETECTIONS, whole, [name for name in whole[0] if name not in KEYS[:-1]])


def write_thresholds(out: Path, cards: Sequence[Mapping[str, Any]]) -> Path:
    """Write each detector's thresholds, by profile and share of healthy runs stopped. cards: `cache.compact` of each.

    A threshold is drawn once a run, each level with its chance; a run is stopped at its first score above the level.
    """
    import pyarrow as pa

    rows = [
        (card["profile"], card["detector"], str(budget), float(one["level"]), one["chance"])
        for card in cards
        for budget in BUDGETS
        for one in card["points"][str(budget)]["recall"]["threshold"]
    ]
    kinds = (pa.string(), pa.string(), pa.string(), pa.float64(), pa.float64())
    names = ("profile", "detector", "point", "level", "chance")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(list(cells), kind) for cells, kind in zip(columns, kinds, strict=True)]
    write_parquet(out / THRESHOLDS, [pa.table(dict(zip(names, arrays, strict=True)))])
    return out / THRESHOLDS


def write_peaks(out: Path, parts: Sequence[Mapping[str, Any]]) -> Path:
    """Write what thresholds of other data would stop: one row a detector and healthy run.

    parts: one a detector, with `profile` and `detector`, and a list for `run_id`, `cluster` and `peak`.
    """
    return _write_by_run(out / PEAKS, parts, ("peak",))


def _write_by_run(file: Path, parts: Sequence[Mapping[str, Any]], numbers: Sequence[str]) -> Path:
    """A table of parts: text is the same for all runs of a part, lists have a cell for each run."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name in parts[0]:
        lists = [[one[name]] * len(one["run_id"]) if isinstance(one[name], str) else one[name] for one in parts]
        cells = [cell for one in lists for cell in one]
        columns[name] = pa.array(cells, pa.float64() if name in numbers else pa.string())
    write_parquet(file, [pa.table(columns)])
    return file


def _table_file(path: Path) -> Path:
    if path.is_dir():
        for name in ("leaderboard.parquet", "leaderboard.csv"):
            if (path / name).is_file():
                return path / name
        raise InputError(f"board: {str(path)!r} has no leaderboard.parquet; allowed: what `leaderboard --out` writes")
    if path.suffix not in (".csv", ".parquet") or not path.is_file():
        what = "is not there" if not path.exists() else "is no table"
        raise InputError(
            f"board: {str(path)!r} {what}; allowed: a folder of `leaderboard --out`, its CSV or its Parquet"
        )
    return path


def _read(file: Path) -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: damaged ({' '.join(str(error).split())})") from None


def _require(file: Path, table: "pd.DataFrame", columns: Sequence[str]) -> None:
    for column in columns:
        if column not in table.columns:
            raise InputError(f"{file}: has no column {column!r}; allowed: what `leaderboard --out` writes")
