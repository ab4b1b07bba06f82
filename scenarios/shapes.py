"""The vocabulary of curves: each shape is one question about one signal, answered yes or no.

Catalogue, lessons and reports speak in these words. Curves are float arrays, one value a step;
`onset` is an index into them. A comparison with a reference uses a healthy run of the same base.
A non-finite value never counts as normal: it is above every level, and not flat.
"""

import warnings
from collections.abc import Callable

import numpy as np

Curve = np.ndarray


def smooth(y: Curve, window: int = 10) -> Curve:
    """Trailing mean over at most `window` values; infinite where a value in it is not finite."""
    y = np.where(np.isfinite(y), y, np.inf).astype(np.float64)
    total = np.cumsum(np.where(np.isfinite(y), y, 0.0))
    bad = np.cumsum(~np.isfinite(y))
    count = np.minimum(np.arange(len(y)) + 1, window)
    drop = np.arange(len(y)) - window
    last = np.maximum(drop, 0)  # of what has left the window
    mean = (total - np.where(drop >= 0, total[last], 0.0)) / count
    return np.where(bad - np.where(drop >= 0, bad[last], 0) > 0, np.inf, mean)


def non_finite_from(y: Curve) -> int | None:
    r"""The first step from which on every value is NaN or infinite, if there is one.

    |    /
    |___/  x x x x
    """
    finite = np.flatnonzero(np.isfinite(y))
    first = int(finite[-1]) + 1 if len(finite) else 0
    return first if first < len(y) else None


def turns_non_finite(y: Curve, onset: int) -> bool:
    r"""Finite up to some step, not before the onset, and at none from there on.

    |    /
    |___/x x x x
    """
    dead = non_finite_from(y)
    return dead is not None and dead >= onset and bool(np.isfinite(y[:dead]).all())


def jumps_in_one_step(y: Curve, onset: int, ratio: float, before: int = 20, after: int = 5) -> bool:
    r"""Flat, then `ratio` times as high within one step, and so for the next few.

    |      |----
    |______|
    """
    level = np.median(y[max(0, onset - before) : onset])
    return bool(
        np.mean(np.where(np.isfinite(y[onset : onset + after]), y[onset : onset + after], np.inf)) > ratio * level
    )


def drops_in_one_step(y: Curve, onset: int, ratio: float, before: int = 20, after: int = 5) -> bool:
    r"""Flat, then at most `ratio` times as high within one step, and so for the next few.

    |------|
    |      |______
    """
    level = np.median(y[max(0, onset - before) : onset])
    window = y[onset : onset + after]
    return bool(np.isfinite(window).all() and np.mean(window) < ratio * level)


def steps_above(y: Curve, reference: Curve, onset: int, margin: float, first: int = 0, last: int = 5) -> bool:
    r"""From `first` to `last` steps after the onset more than `margin` above the reference, on average.

    |      |\_
    |______|__\__  reference
    """
    return _gap(y, reference, onset + first, onset + last) > margin


def readapts(y: Curve, reference: Curve, onset: int, share: float, early: int = 10, late: int = 50) -> bool:
    r"""Above the reference right after the onset; in the last `late` steps under `share` of that is left.

    |      |\_
    |______|  \___
    |______________  reference
    """
    n = min(len(y), len(reference))
    start = _gap(y, reference, onset, onset + early)
    return start > 0 and _gap(y, reference, n - late, n) < share * start


def spikes_and_recovers(y: Curve, onset: int, ratio: float, within: int, before: int = 20) -> bool:
    r"""At least `ratio` times its level at some step soon after the onset, back within `within` steps.

        |      /\
        |_____/  \____
    """
    level = np.median(y[max(0, onset - before) : onset])
    window = y[onset : onset + within]
    if not np.isfinite(y[onset:]).all() or window.max(initial=-np.inf) < ratio * level:
        return False
    later = y[onset + within : onset + within + before]
    return bool(len(later) > 0 and np.median(later) < 1.1 * level)


def spikes_repeatedly(y: Curve, ratio: float, within: int, times: int, before: int = 20) -> bool:
    r"""`times` times or more up to `ratio` times its level of the steps before, each time back within `within` steps.

        |    /\      /\      /\
        |___/  \____/  \____/  \__
    """
    if not np.isfinite(y).all():
        return False
    spikes, step = 0, before
    while step < len(y):
        level = np.median(y[step - before : step])
        if y[step] < ratio * level:
            step += 1
            continue
        back = np.flatnonzero(y[step : step + within] < 1.2 * level)
        spikes += len(back) > 0
        step += int(back[0]) if len(back) else within
    return spikes >= times


def diverges(y: Curve, rise: float) -> bool:
    r"""Ends at least `rise` above the lowest level it had reached, or not finite at all.

    |\        /
    | \______/
    """
    if non_finite_from(y) is not None:
        return True
    levels = smooth(y)
    return bool(levels[-1] > levels[9:].min(initial=np.inf) + rise)


def creeps_before(y: Curve, loss: Curve, onset: int, factor: float, lead: int, rise: float = 0.3) -> bool:
    r"""Has grown to `factor` times its level at the onset, `lead` steps before the loss turns up.

        y    |          ....-'''     loss |\            /
             |....---'''                  | \__________/
                  ^ here                              ^ not before here

    The loss turns where its level leaves its lowest by `rise` for good.
    """
    level = np.median(y[max(0, onset - 20) : onset + 1])
    grown = np.flatnonzero(smooth(y, 20)[onset:] > factor * level)
    turn = turning_point(loss, rise)
    return turn is not None and len(grown) > 0 and onset + int(grown[0]) + lead <= turn


def turning_point(loss: Curve, rise: float) -> int | None:
    """The first step at which the loss is `rise` above its lowest level so far and stays above it."""
    levels = smooth(loss)
    above = levels > np.minimum.accumulate(levels) + rise
    below = np.flatnonzero(~above)
    turn = int(below[-1]) + 1 if len(below) else 0
    return turn if turn < len(loss) else None


def plateaus_above(y: Curve, reference: Curve, margin: float, share: float = 0.25) -> bool:
    r"""Stays at least `margin` above the reference through the last part of the run.

    |\\____________
    | \____________  reference
    """
    n = min(len(y), len(reference))
    start = int(n * (1 - share))
    with np.errstate(invalid="ignore"):  # where neither is finite, neither is above
        gap = smooth(y)[start:n] - smooth(reference)[start:n]
    return bool((gap > margin).all())


def falls_under(y: Curve, reference: Curve, margin: float, share: float = 0.1) -> bool:
    r"""Ends at least `margin` under the reference: it knows something that it should not.

    |\ _____________  reference or floor
    | \_____________
    """
    n = min(len(y), len(reference))
    start = int(n * (1 - share))
    return bool(np.isfinite(y[start:n]).all() and y[start:n].mean() < reference[start:n].mean() - margin)


def above_validation(loss: Curve, validation: Curve, margin: float, share: float = 0.25) -> bool:
    r"""Training loss stands at least `margin` above validation loss through the last part of the run.

    |\__________  training
    | \_._._._._  validation

    validation: NaN between evaluations. A negative margin asks whether it is no further under it than that.
    """
    start = int(len(loss) * (1 - share))
    late = validation[start:]
    if not np.isfinite(loss[start:]).all() or not np.isfinite(late).any():
        return False
    return bool(loss[start:].mean() > np.nanmean(late) + margin)


def levels_off(y: Curve, share: float, of_fall: float) -> bool:
    r"""Falls, but in its last `share` by less than `of_fall` of its whole fall.

    |\
    | \..__________
    """
    levels = smooth(y)
    if not np.isfinite(levels).all():
        return False
    start, last = int(len(y) * (1 - share)), levels[-1]
    fall = float(np.median(y[:3]) - last)
    return bool(fall > 0 and levels[start] - last < of_fall * fall)


def swings_slowly(y: Curve, size: float, times: int) -> bool:
    r"""Its level rises by `size` and falls again by as much, at least `times` times.

    |\      __        __
    | \____/  \______/  \__
    """
    levels = smooth(y, 20)
    if not np.isfinite(levels).all():
        return False
    swings, rising, turn = 0, False, levels[0]
    for level in levels:
        turn = max(turn, level) if rising else min(turn, level)
        if abs(level - turn) >= size:
            swings += rising
            rising, turn = not rising, level
    return swings >= times


def oscillates(y: Curve, reference: Curve, factor: float) -> bool:
    r"""Moves up and down from step to step by `factor` times as much as the reference does.

        |/\/\/\/\/\
    """

    def swing(curve: Curve) -> float:
        return float(np.median(np.abs(np.diff(curve)))) if np.isfinite(curve).all() else np.inf

    return swing(y) > factor * swing(reference)


def sways(y: Curve, correlation: float) -> bool:
    r"""Moves in waves of several steps, up to where it is not finite: around the trend, neighbours move together.

        |  .-.     .-.     .-.
        | /   \   /   \   /   \
        |/     `-'     `-'     `-
    """
    y = y[: non_finite_from(y)]
    if len(y) < 20 or not np.isfinite(y).all():
        return False
    steps = np.arange(len(y))
    rest = y - np.polyval(np.polyfit(steps, y.astype(np.float64), 2), steps)
    power = float((rest * rest).sum())
    rounding = 1e-20 * float((y * y).sum())
    return bool(power > rounding and (rest[1:] * rest[:-1]).sum() > correlation * power)


def agreement(ranks: Curve) -> Curve:
    r"""The share of the other ranks whose number is the first one's, [S], of numbers [S, W]; 1 for one rank.

    1 |-----.
    0 |     '-----
    """
    if ranks.shape[1] == 1:
        return np.ones(len(ranks))
    return np.asarray((ranks[:, 1:] == ranks[:, :1]).mean(1))


def pinned_at(y: Curve, value: float, tolerance: float, share: float = 0.9) -> bool:
    r"""Within `tolerance` of one value at nearly every step.

    |-----------  value
    """
    return bool(len(y) and (np.abs(y - value) <= tolerance).mean() >= share)


def flat_over_position(profile: Curve, reference: Curve, share: float = 0.5) -> bool:
    r"""Falls from the early to the late positions by less than `share` of what the reference does.

        loss |\_   reference        loss |-----
             |  \___                     |
              position                    position

    profile, reference: loss by position or by age, [S, K]; their means over the steps given.
    """

    def slope(values: Curve) -> float:
        mean = _over_steps(np.nanmean, values)
        return float(mean[:2].mean()) - float(mean[-2:].mean())

    return slope(profile) < share * slope(reference)


def worse_beyond_position(profile: Curve, reference: Curve, position: int, margin: float) -> bool:
    r"""As good as the reference up to a position, worse than it beyond.

    |\_    ____  loss
    |  \__/
    """
    with np.errstate(invalid="ignore"):  # where neither is finite, neither is worse
        gap = _over_steps(np.nanmean, profile) - _over_steps(np.nanmean, reference)
    return bool(gap[position:].mean() > margin and abs(gap[:position].mean()) < margin / 2)


def vanishes_in_early_layers(layers: Curve, reference: Curve, factor: float) -> bool:
    r"""The first layers' share of the last layer's value is `factor` times smaller than the reference's.

    |        _-      layers: [S, L], gradient norms in order of depth
    |___..--'
    """

    def early(values: Curve) -> float:
        mean = _over_steps(np.nanmedian, values)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(mean[0] / mean[-1])

    return early(layers) * factor < early(reference)


def explodes_in_late_layers(layers: Curve, reference: Curve, factor: float) -> bool:
    r"""The last layer's value is `factor` times the reference's, the first layer's is not.

    |         |
    |____...--|
    """
    ratio = _ratio(layers, reference)
    return bool(ratio[-1] > factor and ratio[0] < factor)


def one_layer_apart(layers: Curve, reference: Curve, factor: float) -> bool:
    r"""One layer is `factor` times over the reference while every other stays within it.

    |     |
    |__.__|__.__
    """
    ratio = _ratio(layers, reference)
    return bool((ratio > factor).sum() == 1)


def collapses_to_zero(y: Curve, onset: int, share: float = 0.02) -> bool:
    r"""From the onset on under `share` of its level before.

    |-----|
    |     |______
    """
    before, after = np.median(np.abs(y[:onset])), np.median(np.abs(y[onset:]))
    return bool(after < share * before)


def _gap(y: Curve, reference: Curve, start: int, stop: int) -> float:
    """Mean of a curve less the reference's over some steps; infinite where it is not finite, NaN without steps."""
    window, usual = y[start:stop], reference[start:stop]
    if not len(window) or not len(usual):
        return np.nan
    return float(window.mean() - usual.mean()) if np.isfinite(window).all() else np.inf


def _ratio(layers: Curve, reference: Curve) -> Curve:
    """Median over the steps of each layer, in units of the reference's. [L]"""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_over_steps(np.nanmedian, layers) / _over_steps(np.nanmedian, reference))


def _over_steps(statistic: Callable[..., Curve], values: Curve) -> Curve:
    """A statistic over the steps, [K], of values [S, K]; NaN, and no warning, where no step has a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(statistic(values, axis=0))
