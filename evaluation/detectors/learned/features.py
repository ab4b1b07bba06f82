"""What the learned detector computes from the rows so far: the run compared with its own past, whatever is logged.

Every row gives numbers, one a channel: a scalar signal as it is, a list as mean, spread, largest, first and tilt
(last less first), and some relations between signals. Signals that are positive are used as their logarithm, so that
what counts is by which factor they moved; all others as asinh, which leaves shares and entropies as they are and
limits what explodes. A channel keeps exponential averages, a fast and a slow one,

    fast: over the last 3 % of the steps so far, at least `FAST` of them    now
    slow: over the last 25 %, at least `SLOW`                               what now is compared with

so that neither the length of a run nor the logging interval is built in. A value that is missing or not finite
changes no average: the channel keeps what it knew, and is NaN before it knew anything. The state is as large
after a million rows as after one.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, BY_NAME, SIGNALS, Axis, Role
from trainwreck.evaluation.detectors.base import Row

FAST, FAST_SHARE = 4.0, 0.03  # steps, and share of the steps so far
SLOW, SLOW_SHARE = 16.0, 0.25
START = 5  # the first so many steps are how the run began
BEGUN = 0.05  # the spread of a channel of which nothing is known yet
NARROWEST = 0.01  # less is of no interest: a hundredth of a nat, a share, or 1 % of what is used as its logarithm
TOP_Z = 100.0
LEAST, MOST = 1e-12, 1e38  # within these a logarithm is taken
REMEMBERED = 64  # batches of which a repeat is known

BY_FACTOR = frozenset((
    "loss", "validation_loss", "fresh_loss", "row_loss_max", "lr", "loss_scale", "tokens_per_second", "tokens",
    "step_seconds", "position_loss", "age_loss", *(signal.name for signal in SIGNALS if signal.positive),
))  # fmt: skip

# Its weights were learnt before some signals were added.
KNOWN = tuple(signal for signal in SIGNALS if signal.name not in ADDED_SIGNALS)
SCALARS = tuple(signal.name for signal in KNOWN if signal.axis is Axis.SCALAR)
LISTS = tuple(s.name for s in KNOWN if s.axis is not Axis.SCALAR and s.role is not Role.HASH)
HASHES = tuple(s.name for s in SIGNALS if s.role is Role.HASH)
REDUCTIONS = ("mean", "spread", "largest", "first", "tilt")
RELATIONS = (
    "loss less token entropy",
    "validation loss less loss",
    "fresh loss less validation loss",
    "largest row loss less loss",
    "gradient norm after clipping",
    "update ratio less lr",
    "loss not finite or 0",
    "gradient norm not finite",
    "list not finite",
)
SIGNALS_READ = (*SCALARS, *LISTS, *HASHES)

# Channels that give every statistic come first, then those of lists.
FULLY = (*SCALARS, *RELATIONS, *(f"{name} {how}" for name in HASHES for how in ("differing", "repeated")))
BRIEFLY = tuple(f"{name} {how}" for name in LISTS for how in REDUCTIONS)
CHANNELS = (*FULLY, *BRIEFLY)
EVERY_WAY = ("level", "since the start", "jump", "shift", "over its least", "under its largest", "spread", "roughness")
BRIEF_WAYS = EVERY_WAY[:4]
RUN = ("rows", "step", "interval")

NAMES: tuple[str, ...] = (
    *RUN,
    *(f"{channel}: {way}" for way in BRIEF_WAYS for channel in CHANNELS),
    *(f"{channel}: {way}" for way in EVERY_WAY[4:] for channel in FULLY),
)

_AT = {name: i for i, name in enumerate(CHANNELS)}
_SCALARS_BY_FACTOR = np.array([name in BY_FACTOR for name in SCALARS])
_LISTS_BY_FACTOR = np.array([name in BY_FACTOR for name in LISTS])
# NaN in these says nothing: no token is that old, the optimizer has no second moment, there is one rank.
_MAY_BE_NAN = np.array([BY_NAME[name].axis in (Axis.AGES, Axis.RANKS) or "moment" in name for name in LISTS])


class _Layout:
    """Where the lists of a row lie, one after the other: the same in most rows of a run."""

    def __init__(self, which: list[int], begins: list[int], count: int) -> None:
        self.key = (which, begins, count)
        lengths = np.diff([*begins, count])
        self.last = np.array(begins) + lengths - 1
        self.by_factor = np.repeat(_LISTS_BY_FACTOR[which], lengths)
        self.finite_by_right = ~np.repeat(_MAY_BE_NAN[which], lengths)
        first = len(FULLY) + len(REDUCTIONS) * np.array(which)
        self.at = [first + i for i in range(len(REDUCTIONS))]


class Features:
    """The state of one run.

    >>> features = Features()
    >>> values = [features.see({"step": step, "loss": 4.0 / (1 + step)}) for step in range(3)]
    >>> round(float(values[-1][NAMES.index("loss: over its least")]), 3)
    0.0
    """

    def __init__(self) -> None:
        count = len(CHANNELS)
        nothing = np.full(count, np.nan)
        self.fast, self.slow, self.start = nothing.copy(), nothing.copy(), nothing.copy()
        self.low, self.high, self.z = nothing.copy(), nothing.copy(), nothing.copy()
        self.variance, self.rough = np.full(count, BEGUN**2), np.zeros(count)
        self.at = np.zeros(count)  # step of the latest value
        self.rows, self.first, self.latest, self.interval = 0, 0, 0, 0.0
        self.layout: _Layout | None = None
        self.seen: dict[str, deque[float]] = {name: deque(maxlen=REMEMBERED) for name in HASHES}

    def see(self, row: Row) -> np.ndarray:
        """Take in a row, whatever it holds. [len(NAMES)], NaN where nothing is known"""
        step = int(row["step"])
        if self.rows == 0:
            self.first = step
        else:
            self.interval += (max(1, step - self.latest) - self.interval) / min(self.rows, 8)
        self.rows += 1
        self.latest = step
        self._take(self._values(dict(row)), step)  # with every signal at hand, since it reads nearly all
        return self._features(step)

    def _values(self, row: Row) -> np.ndarray:
        """One number a channel, NaN where the row says nothing. [C]"""
        values = np.full(len(CHANNELS), np.nan)
        raw = np.array([row.get(name) for name in SCALARS], dtype=np.float64)  # None is NaN
        scalars = _scaled(raw, _SCALARS_BY_FACTOR)
        values[: len(SCALARS)] = scalars
        broken = self._lists(row, values)
        self._relate(row, values, broken)
        for name in HASHES:
            self._hashes(name, row.get(name), values)
        return values

    def _lists(self, row: Row, values: np.ndarray) -> bool | None:
        """Reduce every list into `values`; whether one is not finite that should be, None without any list."""
        numbers: list[float] = []
        begins: list[int] = []
        which: list[int] = []
        for i, name in enumerate(LISTS):
            found = row.get(name)
            if found:
                which.append(i)
                begins.append(len(numbers))
                numbers += found
        if not which:
            return None
        layout = self.layout
        if layout is None or layout.key != (which, begins, len(numbers)):
            layout = self.layout = _Layout(which, begins, len(numbers))
        raw = np.array(numbers, dtype=np.float64)
        finite = np.isfinite(raw)
        broken = bool((~finite & layout.finite_by_right).any())
        scaled = _scaled(raw, layout.by_factor)
        count = np.add.reduceat(finite, begins, dtype=np.float64)
        total = np.add.reduceat(np.where(finite, scaled, 0.0), begins)
        largest = np.fmax.reduceat(scaled, begins)
        first = scaled[begins]
        mean = np.divide(total, count, out=np.full(len(which), np.nan), where=count > 0)
        spread = largest - np.fmin.reduceat(scaled, begins)
        for at, reduced in zip(layout.at, (mean, spread, largest, first, scaled[layout.last] - first), strict=True):
            values[at] = reduced
        return broken

    def _relate(self, row: Row, values: np.ndarray, broken: bool | None) -> None:
        loss, grad, clip = row.get("loss"), row.get("grad_norm"), row.get("clip_coef")
        level = self.fast[_AT["loss"]]
        now = values[_AT["loss"]]
        i = len(SCALARS)
        entropy = row.get("token_entropy")
        if entropy is not None and entropy > 0.0:
            values[i] = now - np.log(min(max(entropy, LEAST), MOST))
        values[i + 1] = values[_AT["validation_loss"]] - (level if level == level else now)
        values[i + 2] = values[_AT["fresh_loss"]] - values[_AT["validation_loss"]]
        values[i + 3] = values[_AT["row_loss_max"]] - now
        if clip is not None and clip > 0.0:
            values[i + 4] = values[_AT["grad_norm"]] + np.log(min(max(clip, LEAST), MOST))
        values[i + 5] = values[_AT["layer_update_ratio mean"]] - values[_AT["lr"]]
        if loss is not None:
            values[i + 6] = float(not np.isfinite(loss) or loss == 0.0)  # 0: how a filter logs nothing but NaN
        if grad is not None:
            values[i + 7] = float(not np.isfinite(grad) and row.get("skipped") != 1.0)
        if broken is not None:
            values[i + 8] = float(broken)

    def _hashes(self, name: str, hashes: Sequence[float] | None, values: np.ndarray) -> None:
        known = [] if hashes is None else [one for one in hashes if one == one]
        if not known:
            return
        seen = self.seen[name]
        values[_AT[f"{name} differing"]] = (len(set(known)) - 1) / max(1, len(known) - 1)
        values[_AT[f"{name} repeated"]] = float(known[0] in seen)
        seen.append(known[0])

    def _take(self, x: np.ndarray, step: int) -> None:
        known = x == x
        new = known & (self.fast != self.fast)
        if new.any():
            for state in (self.fast, self.slow, self.start, self.low, self.high):
                state[new] = x[new]
            self.z[new] = 0.0
            self.at[new] = step
        past = step - self.first
        since = np.where(known, np.maximum(step - self.at, 0.0), 0.0)
        x = np.where(known, x, self.slow)
        away = x - self.slow
        z = np.clip(away / np.sqrt(self.variance + NARROWEST**2), -TOP_Z, TOP_Z)
        self.z = np.where(known, z, self.z)
        quick = -np.expm1(-since / max(FAST, FAST_SHARE * past))
        slowly = -np.expm1(-since / max(SLOW, SLOW_SHARE * past))
        self.rough += quick * (np.abs(self.z) - self.rough)
        self.variance = (1.0 - slowly) * (self.variance + slowly * np.where(known, away, 0.0) ** 2)
        self.slow = self.slow + slowly * away
        self.fast = self.fast + quick * (x - self.fast)
        if past < START:
            self.start = self.fast.copy()
        self.low = np.fmin(self.low, self.fast)
        self.high = np.fmax(self.high, self.fast)
        self.at[known] = step

    def _features(self, step: int) -> np.ndarray:
        spread = np.sqrt(self.variance + NARROWEST**2)
        full = slice(len(FULLY))
        unknown = np.where(self.fast[full] == self.fast[full], 0.0, np.nan)
        return np.concatenate(
            [
                (np.log1p(self.rows), np.log1p(max(0, step)), np.log1p(self.interval)),
                self.fast,
                self.fast - self.start,
                np.arcsinh(self.z),
                np.arcsinh((self.fast - self.slow) / spread),
                self.fast[full] - self.low[full],
                self.high[full] - self.fast[full],
                np.log(spread[full]) + unknown,
                np.log1p(self.rough[full]) + unknown,
            ]
        )


def _scaled(raw: np.ndarray, by_factor: np.ndarray) -> np.ndarray:
    """Logarithm or asinh; NaN where not finite."""
    known = np.where(np.isfinite(raw), raw, np.nan)
    return np.where(by_factor, np.log(np.clip(known, LEAST, MOST)), np.arcsinh(known))
