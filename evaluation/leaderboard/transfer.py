"""Whether the order of detectors on one board is that on another: rank correlation, its interval, and its ceiling.

Runs of a board are resampled by whole clusters: scenarios of a synthetic board, clusters of real runs. Both boards are
drawn apart, so that the interval contains the uncertainty of both; detectors are taken as they are, and so are
thresholds. The interval is Student's with one degree of freedom less than the board with fewer clusters has of them.

No board agrees with another better than with itself. The ceiling is the correlation of a board with itself on random
halves of its clusters, in the mean over halvings, stepped up to the whole by the formula of Spearman (1910) and Brown
(1910), 2 r / (1 + r).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation import short_forms
from trainwreck.evaluation.constants import CLUSTERS, CONFIDENCE, RESAMPLES
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import write_parquet
from trainwreck.evaluation.leaderboard.columns import BY_NAME, FREE
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.metrics.bootstrap import Estimate, ratio
from trainwreck.evaluation.scoring.scorecard import plain

if TYPE_CHECKING:
    import pandas as pd

DETECTIONS = "detections.parquet"  # of a board's folder: of each failed run the chance that it is found in time
KEYS = ("profile", "detector", "run_id", "cluster", "weight")
FEWEST = 3  # detectors that have an order
LENIENT = "_lenient"
POINTS = tuple(name for name, table in BY_NAME.items() if table.point != FREE)


@dataclass(frozen=True, repr=False)
class Transfer:
    """Two boards compared. Use `transfer`.

    at: the operating point. detectors: that both have, by the second board, best first; board, real: in-time recall of
    each. spearman, kendall: tau-b, each with its interval. ceiling: of each board by name of the correlation; NaN where
    it can't be known.
    """

    profile: str
    at: str
    lenient: bool
    detectors: tuple[str, ...]
    board: tuple[float, ...]
    real: tuple[float, ...]
    spearman: Estimate
    kendall: Estimate
    ceiling: dict[str, dict[str, float]]
    notes: tuple[str, ...]

    def to_frame(self) -> "pd.DataFrame":
        """One row a detector: recall and rank (ties share the mean) on both boards."""
        import pandas as pd

        frame = pd.DataFrame({"detector": self.detectors, "board": self.board, "real": self.real})
        for name in ("board", "real"):
            frame[f"{name}_rank"] = frame[name].rank(ascending=False)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; None for what is not known."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}

    def __repr__(self) -> str:
        return self.to_frame().to_string(index=False, max_rows=20, float_format="{:.3f}".format)

    def _repr_html_(self) -> str:
        return short_forms.table(self.to_frame())


def transfer(
    board: str | Path, real: str | Path, *, profile: str | None = None, at: str = "5%", lenient: bool = False
) -> Transfer:
    """The order of detectors on one board and on another that is the judge, at an operating point.

    board, real: what `leaderboard --out` writes: its folder, or the table alone (CSV or Parquet), which has no runs to
    resample, so that nothing is known of its uncertainty. profile: of the first board, where it has several. at: "5%",
    "1%" or "default". lenient: by the lenient recall of the second board, which boards of real runs have. Oracles,
    which know the label, are left out. InputError in one line for anything else, and for fewer than three detectors on
    both.
    """
    if at not in POINTS:
        raise unknown("at", at, POINTS)
    point = BY_NAME[at].point
    first = Board(Path(board), profile, f"recall_{point}", f"found_{point}")
    window = LENIENT if lenient else ""
    second = Board(Path(real), None, f"recall{window}_{point}", f"found{window}_{point}")
    known = [name for name in second.names if name in first.recall and name not in ORACLES]
    if len(known) < FEWEST:
        raise InputError(
            f"board: {len(known)} detectors of {str(board)!r} are on {str(real)!r} too; allowed: {FEWEST} and more"
        )
    values = [np.array([one.recall[name] for name in known]) for one in (first, second)]
    drawn = [one.resampled(known, seed) for seed, one in enumerate((first, second))]
    clusters = [one.clusters for one in (first, second) if one.clusters]
    notes = [*first.notes(), *second.notes()]
    found: dict[str, Estimate] = {}
    for name, correlation in CORRELATIONS.items():
        value = correlation(*values)
        samples = [correlation(*pair) for pair in zip(*drawn, strict=True)] if clusters else []
        found[name] = Estimate(value, *_interval(value, np.array(samples), min(clusters, default=0)))
    if math.isnan(found["spearman"].value):
        notes.append("all detectors have the same recall on one of the boards, which has no order then")
    return Transfer(
        profile=first.profile,
        at=at,
        lenient=lenient,
        detectors=tuple(known),
        board=tuple(values[0].tolist()),
        real=tuple(values[1].tolist()),
        spearman=found["spearman"],
        kendall=found["kendall"],
        ceiling={"board": first.ceiling(known), "real": second.ceiling(known)},
        notes=tuple(notes),
    )


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
        file = self.path / DETECTIONS
        if not (self.path.is_dir() and file.is_file()):
            return None
        table = _read(file)
        _require(file, table, (*KEYS, self.found))
        return table[table["profile"] == self.profile]

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

    def ceiling(self, names: Sequence[str]) -> dict[str, float]:
        """Correlation of the board with itself, by split halves of its clusters; NaN with fewer than four."""
        if self.clusters < 4:
            return dict.fromkeys(CORRELATIONS, math.nan)
        top, bottom = self.parts(names)
        random = np.random.default_rng(0)
        found: dict[str, list[float]] = {name: [] for name in CORRELATIONS}
        for _ in range(RESAMPLES):
            order = random.permutation(self.clusters)
            halves = order[: self.clusters // 2], order[self.clusters // 2 :]
            one, other = (top[half].sum(axis=0) / bottom[half].sum() for half in halves)
            for name, correlation in CORRELATIONS.items():
                found[name].append(correlation(one, other))
        return {name: stepped_up(np.array(values)) for name, values in found.items()}


def stepped_up(halves: np.ndarray) -> float:
    """Correlation of a whole with another such whole, from those of its halves; NaN where no halves have an order.

    >>> stepped_up(np.array([0.5, np.nan, 0.5]))
    0.6666666666666666
    """
    finite = halves[np.isfinite(halves)]
    if not len(finite) or finite.mean() <= -1.0:
        return math.nan
    return float(2.0 * finite.mean() / (1.0 + finite.mean()))


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Rank correlation, ties at their mean rank; NaN where all of one are the same.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.2]))
    0.5
    """
    from scipy.stats import spearmanr

    return _correlation(spearmanr, one, other)


def kendall(one: np.ndarray, other: np.ndarray) -> float:
    """Kendall's tau-b; NaN where all of one are the same.

    >>> kendall(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0])) == round(2 / (2 * 3) ** 0.5, 12)
    True
    """
    from scipy.stats import kendalltau

    return _correlation(partial(kendalltau, method="asymptotic"), one, other)


def _correlation(of: Callable[..., Any], one: np.ndarray, other: np.ndarray) -> float:
    """Without the last digits, in which sums of the same parts in another order differ."""
    first, second = np.round(one, 12), np.round(other, 12)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return round(float(of(first, second).statistic), 12)


CORRELATIONS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {"spearman": spearman, "kendall": kendall}


def write_detections(out: Path, parts: Sequence[Mapping[str, Any]]) -> Path:
    """Write what a board's resamples are made of: one row a profile, detector and failed run.

    parts: one a profile and detector, with both, and a list for `run_id`, `cluster`, each `found_...` (the chance that
    the run is found in time at an operating point) and, where runs do not count the same, `weight`.
    """
    import pyarrow as pa

    whole = [{"weight": [1.0] * len(part["run_id"])} | dict(part) for part in parts]
    columns: dict[str, Any] = {}
    for name in whole[0]:
        lists = [[one[name]] * len(one["run_id"]) if isinstance(one[name], str) else one[name] for one in whole]
        cells = [cell for one in lists for cell in one]
        number = name == "weight" or name.startswith("found")
        columns[name] = pa.array(cells, pa.float64() if number else pa.string())
    write_parquet(out / DETECTIONS, [pa.table(columns)])
    return out / DETECTIONS


def _interval(value: float, samples: np.ndarray, clusters: int) -> tuple[float, float]:
    finite = samples[np.isfinite(samples)]
    if math.isnan(value) or len(finite) < 2 or clusters < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    deviation = float(finite.std()) * math.sqrt(clusters / (clusters - 1))
    wide = float(stdtrit(clusters - 1, (1.0 + CONFIDENCE) / 2.0)) * deviation
    return max(-1.0, value - wide), min(1.0, value + wide)


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
