"""Whether the order of detectors on one board is that on another, and its thresholds hold there.

*Order*: rank correlation, its interval, and its ceiling. Runs of a board are resampled by whole clusters: scenarios of
a synthetic board, clusters of real runs. Both boards are drawn apart, so that the interval contains the uncertainty of
both; detectors are taken as they are, and so are thresholds. The interval is Student's with one degree of freedom less
than the board with fewer clusters has of them.

No board agrees with another better than with itself. The ceiling is the correlation of a board with itself on random
halves of its clusters, in the mean over halvings, stepped up to the whole by the formula of Spearman (1910) and Brown
(1910), 2 r / (1 + r).

*Thresholds*: the share of the second board's healthy runs, in the mean over clusters, that each detector stops at the
threshold that the first board's healthy runs set. The median over detectors has an interval by resampling clusters of
the second board; thresholds are taken as they are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwreck.evaluation import short_forms
from trainwreck.evaluation.constants import CONFIDENCE, RESAMPLES
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.leaderboard.columns import BY_NAME, DEFAULT, FREE
from trainwreck.evaluation.leaderboard.transfer.boards import PEAKS, THRESHOLDS, Board
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.metrics.bootstrap import NOTHING, Estimate
from trainwreck.evaluation.scoring.scorecard import plain

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 3  # detectors that have an order
LENIENT = "_lenient"
POINTS = tuple(name for name, table in BY_NAME.items() if table.point != FREE)


@dataclass(frozen=True, repr=False)
class Transfer:
    """Two boards compared. Use `transfer`.

    at: the operating point. detectors: that both have, by the second board, best first; board, real: in-time recall of
    each. spearman, kendall: tau-b, each with its interval. ceiling: of each board by name of the correlation; NaN where
    it can't be known. stopped: share of the second board's healthy runs that each detector stops at the first's
    threshold, NaN where it is not known; median_stopped: in the median over detectors.
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
    stopped: tuple[float, ...]
    median_stopped: Estimate
    notes: tuple[str, ...]

    def to_frame(self) -> "pd.DataFrame":
        """One row a detector: recall and rank (ties share the mean) on both boards, and what is stopped."""
        import pandas as pd

        columns = {"detector": self.detectors, "board": self.board, "real": self.real, "stopped": self.stopped}
        frame = pd.DataFrame(columns)
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
    stops = [_stops(first, second, name, point) for name in known]
    if len({len(one) for one in stops if len(one)}) > 1:
        raise InputError(f"{second.path / PEAKS}: runs of a detector are missing; allowed: as it was written")
    if point != DEFAULT and second.peaks is not None and not any(len(one) for one in stops):
        notes.append(f"{first.path} has no {THRESHOLDS}, so that nothing is known of what its thresholds stop")
    return Transfer(
        profile=first.profile,
        at=at,
        lenient=lenient,
        detectors=tuple(known),
        board=tuple(values[0].tolist()),
        real=tuple(values[1].tolist()),
        spearman=found["spearman"],
        kendall=found["kendall"],
        ceiling={"board": ceiling(first, known), "real": ceiling(second, known)},
        stopped=tuple(float(one.mean()) if len(one) else math.nan for one in stops),
        median_stopped=_median(stops),
        notes=tuple(notes),
    )


def ceiling(board: Board, names: Sequence[str]) -> dict[str, float]:
    """Correlation of a board with itself, by split halves of its clusters; NaN with fewer than four."""
    if board.clusters < 4:
        return dict.fromkeys(CORRELATIONS, math.nan)
    top, bottom = board.parts(names)
    random = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in CORRELATIONS}
    for _ in range(RESAMPLES):
        order = random.permutation(board.clusters)
        halves = order[: board.clusters // 2], order[board.clusters // 2 :]
        one, other = (top[half].sum(axis=0) / bottom[half].sum() for half in halves)
        for name, correlation in CORRELATIONS.items():
            found[name].append(correlation(one, other))
    return {name: stepped_up(np.array(values)) for name, values in found.items()}


def _stops(board: Board, real: Board, name: str, point: str) -> np.ndarray:
    """Share of the healthy runs that a threshold of `board` stops, by cluster of `real`; empty if not known. [C]"""
    levels, chances = board.thresholds(name, point)
    if real.peaks is None or not len(levels) or np.isnan(chances).any():
        return np.zeros(0)
    own = real.peaks[real.peaks["detector"] == name]
    hit = (own["peak"].to_numpy(np.float64)[:, None] > levels) @ chances
    return np.asarray(own.assign(hit=hit).groupby("cluster", sort=True)["hit"].mean().to_numpy(np.float64))


def _median(stops: Sequence[np.ndarray]) -> Estimate:
    """In the median over detectors, with an interval by resampling clusters. stops: [C] of each, or empty."""
    known = np.array([one for one in stops if len(one)])  # [D, C]
    if not known.size:
        return NOTHING
    count = known.shape[1]
    random = np.random.default_rng(2)
    drawn = random.multinomial(count, np.full(count, 1.0 / count), size=RESAMPLES) / count
    value = float(np.median(known.mean(axis=1)))
    low, high = _interval(value, np.median(drawn @ known.T, axis=1), count, lowest=0.0)
    return Estimate(value, low, high)


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


def _interval(value: float, samples: np.ndarray, clusters: int, lowest: float = -1.0) -> tuple[float, float]:
    finite = samples[np.isfinite(samples)]
    if math.isnan(value) or len(finite) < 2 or clusters < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    deviation = float(finite.std()) * math.sqrt(clusters / (clusters - 1))
    wide = float(stdtrit(clusters - 1, (1.0 + CONFIDENCE) / 2.0)) * deviation
    return max(lowest, value - wide), min(1.0, value + wide)
