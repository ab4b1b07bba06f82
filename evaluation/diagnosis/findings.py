"""Whether something is wrong with a run, and since when: rules on its curves that read the whole log.

A detector sees the rows so far; a person who asks about a log has all of it, so these rules may look back. They are
made so that what logs differ in changes nothing: a loss may be in any unit and at any level, and rows at any interval.
A loss is judged by its fall, that is from the mean of its first rows to its least level:

level   median of the last rows, a twentieth of the log and at most 25
noise   of a single row about its trend, by the median difference between neighbours
rise    of the level over its least so far, as a share of the fall

The detector `playbook` judges the rows so far by the same measures (`detectors/playbook/fall.py`).

Shares of the log are counted in rows and in steps, and the smaller counts, since many logs have more rows at the
start. The thresholds were developed on 139 public logs; docs/diagnose.md has what other thresholds would do there.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from trainwreck.evaluation.detectors.playbook.fall import CLEAR, LOUD, NORMAL, OFF, REST, SMOOTH, STILL
from trainwreck.evaluation.diagnosis.observed import Curve, Observed

FEWEST = 20  # rows of the loss, under which its shape is not judged
SURE = 4.0  # standard errors between the first and the last quarter from which on they differ
EARLY = 0.05  # share of the log by which a healthy run still has some of its fall ahead
LONG = 0.15  # share of the log over which it may not stay so
ENDS_OFF = 0.05  # share of the fall by which a log may not end off it
LAST = 5  # rows that are the end, at least
LAST_SHARE = 0.05  # of the rows; a shorter rise at the end may yet come back, unless it is
HALF = 0.5  # of the fall
STEPS_AT_ONCE = 5  # between two rows, for a jump in one row to be one in a step or so
CLOSE = 20  # steps between the last finite row and the first that is not, to know what came before
RISING = ("high_lr", "fp16_attention_overflow", "post_ln_depth", "corrupt_tokens", "softmax_unshifted")
BLUE = ("nan_weight_spread", "softmax_unshifted", "log_of_zero", "corrupt_tokens", "high_lr")  # out of the blue
NEAR_ZERO = 0.05  # of the largest loss; from under it a 0 may be what rounding leaves
OVERFLOWS = 3  # rows in a row without a finite gradient, where the loss is finite


@dataclass(frozen=True)
class Finding:
    """What one rule found. since: the step from which on. rows: how many it holds for. causes: what often looks so.

    decides: whether it alone says that something is wrong. says: what was found, in words, with its numbers.
    """

    rule: str
    since: int
    says: str
    rows: int
    decides: bool = True
    causes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self) | {"causes": list(self.causes)}


def findings(run: Observed) -> list[Finding]:
    """Every rule that finds something, the earliest first; those that decide before those that do not."""
    found = [*_nonfinite(run), *_zero_loss(run), *_missing(run), *_of_the_loss(run), *_validation(run)]
    return sorted(found, key=lambda one: (not one.decides, one.since))


class Shape:
    """The finite part of a loss curve and its levels. Arrays are [R]."""

    def __init__(self, curve: Curve) -> None:
        self.steps, self.values = curve.finite
        n = len(self.values)
        self.width = max(3, min(SMOOTH, n // 20))
        padded = np.concatenate([np.full(self.width - 1, np.nan), self.values])
        self.level = np.nanmedian(np.lib.stride_tricks.sliding_window_view(padded, self.width), axis=1)
        self.least = np.minimum.accumulate(self.level)
        self.noise = float(np.median(np.abs(np.diff(self.values)))) / NORMAL
        self.start = max(float(self.values[:3].mean()), float(self.level[0]))
        self.fall = self.start - float(self.least[-1])

    def share(self, first: int, last: int) -> float:
        """What rows first to last are of the log, in rows or in steps, whichever is less."""
        steps = (self.steps[last] - self.steps[first]) / max(1, self.steps[-1] - self.steps[0])
        return float(min((last - first + 1) / len(self.steps), steps))

    def by(self, share: float) -> int:
        """The row by which so much of the log is over, in rows and in steps."""
        steps = self.steps[0] + share * (self.steps[-1] - self.steps[0])
        return max(round(share * (len(self.steps) - 1)), int(np.searchsorted(self.steps, steps)))


def _of_the_loss(run: Observed) -> Iterator[Finding]:
    if len(run.curve("loss").finite) < FEWEST:
        return
    shape = Shape(run.curve("loss"))
    off = list(_off_its_least(run, shape))
    yield from off
    if not any(one.decides for one in off):
        yield from _never_fell(shape) or _stopped_early(run, shape)


def _never_fell(shape: Shape) -> list[Finding]:
    quarter = len(shape.values) // 4
    first, last = shape.values[:quarter], shape.values[-quarter:]
    error = shape.noise * np.sqrt(2.0 / quarter)
    if shape.fall > STILL * shape.noise or first.mean() - last.mean() > SURE * error:
        return []
    found = Finding(
        "no_progress", int(shape.steps[0]),
        f"the loss has not fallen in {len(shape.values)} rows by more than its noise from row to row: "
        f"{_short(float(first.mean()))} in the first quarter, {_short(float(last.mean()))} in the last",
        len(shape.values), causes=("lr_too_low", "effective_lr_zero", "loss_detached", "labels_detached"),
    )  # fmt: skip
    return [found]


def _stopped_early(run: Observed, shape: Shape) -> Iterator[Finding]:
    if not np.isfinite(run.curve("loss").values).all():
        return
    at = shape.by(EARLY)
    ahead = (shape.level[at] - shape.least[-1]) / shape.fall if shape.fall > 0 else 0.0
    if len(shape.values) < 5 * FEWEST or ahead > REST or shape.level[-1] > shape.level[at]:
        return
    reached = int(np.argmax(shape.level - shape.least[-1] <= REST * shape.fall))
    yield Finding(
        "stopped_early", int(shape.steps[reached]),
        f"{1 - REST:.0%} of the fall of the loss came by step {shape.steps[reached]}; in the "
        f"{len(shape.values) - reached} rows since then it went from {_short(float(shape.level[reached]))} to "
        f"{_short(float(shape.level[-1]))}",
        len(shape.values) - reached, causes=("labels_detached", "post_ln_depth", "vanishing_depth", "high_lr"),
    )  # fmt: skip


def _off_its_least(run: Observed, shape: Shape) -> Iterator[Finding]:
    """The longest stretch over the least level so far, if it is long, and the last one, if the log ends in it."""
    if shape.fall <= 0:
        return
    gap = shape.level - shape.least
    clear = gap > shape.noise * (CLEAR if shape.fall > STILL * shape.noise else LOUD)
    off = _stretches((gap > OFF * shape.fall) & clear)
    long = [(a, b) for a, b in off if shape.share(a, b) >= LONG]
    ends = _stretches((gap > ENDS_OFF * shape.fall) & clear)
    last = [(a, b) for a, b in ends if b == len(gap) - 1]
    long = [] if last and long and long[0][1] == last[0][1] else long
    chosen = [(a, b) for a, b in (*long[:1], *last) if b - a + 1 >= LAST]
    yield from (_risen(run, shape, gap, a, b) for a, b in chosen)
    short = [(a, b) for a, b in off if a >= shape.by(EARLY) and b - a + 1 >= LAST and not long]
    if not chosen and short:
        a, b = max(short, key=lambda one: one[1] - one[0])
        yield replace(_risen(run, shape, gap, a, b), rule="rise_that_passed", decides=False)


def _risen(run: Observed, shape: Shape, gap: np.ndarray, a: int, b: int) -> Finding:
    """The finding of rows a to b, which are off the least level."""
    # The level follows a jump when half of its rows are over: the jump was at the first of those without a break.
    behind = shape.values[max(0, a - shape.width + 1) : a + 1]
    under = behind <= shape.least[a] + (shape.level[a] - shape.least[a]) / 2
    first = a if under[-1] else a + 1 - int(np.argmax(np.append(under[::-1], True)))
    best = int(np.argmin(shape.level[: a + 1]))
    peak = a + int(np.argmax(shape.level[a : b + 1]))
    rise = float(gap[a : b + 1].max() / shape.fall)
    at_end = b == len(gap) - 1
    ended = "has not come back by the end of the log" if at_end else f"came back at step {shape.steps[b + 1]}"
    return Finding(
        "rise_at_the_end" if at_end else "long_rise", int(shape.steps[first]),
        f"the loss rose from {_short(float(shape.level[best]))} to {_short(float(shape.level[peak]))} at step "
        f"{shape.steps[peak]}, by {_short(rise)} of all that it fell, and {ended}: {b - a + 1} rows",
        b - a + 1, decides=not at_end or rise >= HALF or b - a + 1 >= LAST_SHARE * len(gap),
        causes=_causes_of_a_rise(run, shape, gap, a, b),
    )  # fmt: skip


def _causes_of_a_rise(run: Observed, shape: Shape, gap: np.ndarray, a: int, b: int) -> tuple[str, ...]:
    """By whether the validation loss rose with it, and whether it came at once or built up."""
    validation = run.curve("validation_loss").finite
    before = validation.values[validation.steps < shape.steps[a]]
    since = validation.values[(validation.steps > shape.steps[a]) & (validation.steps <= shape.steps[b])]
    if len(before) and len(since) > 1 and float(np.median(since)) <= float(before[-1]):
        return "augmentation_noise", "label_noise", "corrupt_tokens"
    settled = min(b, a + shape.width)  # by when the level of a loss that jumped has followed it
    at_once = gap[settled] >= HALF * float(gap[a : b + 1].max()) and gap[a : b + 1].max() < shape.fall
    if at_once and shape.steps[a] - shape.steps[max(0, a - 1)] <= STEPS_AT_ONCE:
        return "corrupt_tokens", "distribution_shift", "tokenizer_mismatch", "optimizer_state_lost", "lr_jump"
    return "high_lr", "slow_divergence", "clip_too_loose", "adam_beta2_low", "no_warmup"


def _nonfinite(run: Observed) -> Iterator[Finding]:
    for name in ("loss", "validation_loss"):
        steps, values = run.curve(name)
        bad = ~np.isfinite(values)
        if bad.any():
            yield Finding(
                "nonfinite", int(steps[bad][0]),
                f"{name} is {_kind(values[bad][0])} at step {steps[bad][0]}, and not finite in {bad.sum()} of the "
                f"{len(values)} rows that have it",
                int(bad.sum()), causes=_causes_of_nan(run, int(steps[bad][0])),
            )  # fmt: skip
    weights = run.curve("nonfinite_weights")
    if (weights.values > 0).any():
        first = int(weights.steps[weights.values > 0][0])
        yield Finding("nonfinite", first, f"weights are not finite from step {first} on", 1, causes=BLUE)
    steps, values = run.curve("grad_norm")
    stretches = _stretches(~np.isfinite(values))
    if stretches:
        scaled = bool(len(run.curve("loss_scale")) or len(run.curve("skipped")))
        enough = OVERFLOWS * (2 if scaled else 1)
        long = [(a, b) for a, b in stretches if b - a + 1 >= enough]
        a, b = (long or stretches)[0]
        yield Finding(
            "nonfinite_gradient", int(steps[a]),
            f"grad_norm is not finite at step {steps[a]}, {b - a + 1} rows in a row; with a dynamic loss scale (fp16) "
            "single rows of this are normal",
            sum(b - a + 1 for a, b in stretches), decides=bool(long),
            causes=("loss_scale_stuck_high", "loss_scale_collapse", "fp16_attention_overflow", "high_lr"),
        )  # fmt: skip


def _causes_of_nan(run: Observed, step: int) -> tuple[str, ...]:
    """By whether loss or gradient were rising before; where rows are too far apart to see that, as if they were."""
    for name in ("loss", "grad_norm"):
        curve = run.curve(name).finite
        before = curve.values[curve.steps < step][-SMOOTH:]
        if name == "loss" and (len(before) < 2 * LAST or step - curve.steps[curve.steps < step][-1] > CLOSE):
            return RISING
        if len(before) >= 2 * LAST:
            noise = float(np.median(np.abs(np.diff(before)))) / NORMAL
            if before[-3:].max() > np.median(before[:-3]) + 2 * STILL * noise:
                return RISING
    return BLUE


def _zero_loss(run: Observed) -> Iterator[Finding]:
    steps, values = run.curve("loss")
    found = [(a, b) for a, b in _stretches(values == 0.0) if b > a]
    if found:
        a, b = found[0]
        before = values[:a][np.isfinite(values[:a])]
        fell = not len(before) or before[-1] > NEAR_ZERO * before.max()
        yield Finding(
            "zero_loss", int(steps[a]),
            f"the loss is exactly 0 at {b - a + 1} rows in a row, from step {steps[a]} on: as a logger that filters "
            "NaN prints it, or with labels that are all the same",
            b - a + 1, decides=bool(fell),
            causes=("high_lr", "nan_weight_spread", "labels_one_class", "label_leak"),
        )  # fmt: skip


def _missing(run: Observed) -> Iterator[Finding]:
    steps = run.curve("loss").steps
    after = run.steps[run.steps > steps[-1]] if len(steps) else run.steps[:0]
    if len(after) >= LAST and after[-1] - steps[-1] > OFF * (after[-1] - run.steps[0]):
        yield Finding(
            "loss_missing", int(after[0]),
            f"{len(after)} rows after step {steps[-1]} have no loss, to the end of the log: an empty cell often stands "
            "for NaN",
            len(after), decides=False, causes=RISING,
        )  # fmt: skip


def _validation(run: Observed) -> Iterator[Finding]:
    curve = run.curve("validation_loss").finite
    if len(curve) < 6:
        return
    values = curve.values
    best = int(np.argmin(values))
    fall = values[0] - values[best]
    # By second differences: evaluations are few, and most of what lies between two of them is no noise.
    noise = float(np.median(np.abs(np.diff(values, 2)))) / 1.652
    over = float(values[-3:].min() - values[best])
    if best >= len(values) - 3 or fall <= 0 or over <= max(OFF * fall, STILL * noise):
        return
    loss = run.curve("loss").finite
    loss_then = loss.values[loss.steps <= curve.steps[best]]
    alone = len(loss_then) > 0 and float(np.median(loss.values[-LAST:])) <= float(np.median(loss_then[-LAST:]))
    yield Finding(
        "validation_rises", int(curve.steps[best + 1]),
        f"validation_loss rises from {_short(float(values[best]))} at step {curve.steps[best]} to "
        f"{_short(float(values[-1]))} at the end, and loss {'does not' if alone else 'with it'}",
        len(values) - best,
        causes=("overfit_small_set", "data_replayed", "ema_misused") if alone
        else ("high_lr", "distribution_shift", "catastrophic_forgetting"),
    )  # fmt: skip


def _stretches(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and last position of every stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _kind(value: float) -> str:
    return "NaN" if value != value else "infinite"


def _short(value: float) -> str:
    return f"{value:.4g}"
