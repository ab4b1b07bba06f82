"""Where a detector's headline comes from, and what other thresholds would give."""

from typing import Any

import numpy as np

from trainwreck.evaluation.constants import RATE_STEPS
from trainwreck.evaluation.dataset.schema import FAILURES
from trainwreck.evaluation.scoring.metrics.bootstrap import Ratio, Share
from trainwreck.evaluation.scoring.metrics.delay import restricted_delay
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, peak, threshold_range
from trainwreck.evaluation.scoring.operating_points import At, peaks, share_of
from trainwreck.evaluation.scoring.outcomes import Outcomes

THRESHOLDS = 40  # of the curve of false alarms against delay


def breakdown(at: At) -> dict[str, dict[str, Share]]:
    """In-time recall by family, scenario and what was held out; share stopped by look-alike, at one threshold.

    Failures of two families at once are one group, `reference.PAIRS`. Intervals take the threshold as given.
    """
    masks = at.frame.parts
    found_in_time = at.expected(at.found)
    expected = dict.fromkeys(("family", "scenario", "held_out"), found_in_time)
    expected["look_alike"] = at.expected(at.alarmed)
    found = at.frame.bootstrap.ratios({key: Ratio(expected[key[0]] * mask, mask) for key, mask in masks.items()})
    return {
        part: {key[1]: share_of(estimate, values, masks[key]) for key, estimate in found.items() if key[0] == part}
        for part, values in expected.items()
    }


def threshold_curves(one: Outcomes) -> dict[str, Any]:
    """Metric 7: the best recall at each share of healthy runs stopped, and false alarms against delay.

    operating: `stopped` and `recall`, where the best recall rises. alarm_delay: `rate`, false alarms per 10,000
    healthy steps watched under the stop protocol, and `delay`, mean restricted delay from the onset as a share of the
    horizon, over thresholds at the quantiles of the runs' largest scores. Empty where a curve needs runs that are
    not there.
    """
    empty: dict[str, Any] = {"operating": {"stopped": [], "recall": []}, "alarm_delay": {"rate": [], "delay": []}}
    if not (one.failing.any() and one.healthy.any()):
        return empty
    stopped, recall = frontier(*operating(one))
    finite = peak(one.scores)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return empty | {"operating": {"stopped": stopped, "recall": recall}}
    # A quantile that is one of the values: a monotone transform of the scores then leaves the curve.
    thresholds = np.unique(np.quantile(finite, np.linspace(0.0, 1.0, THRESHOLDS), method="inverted_cdf"))
    first = firsts_above(one.steps, one.scores, np.append(-np.inf, thresholds))
    rate = stop_rate(first, exposure(one), RATE_STEPS)
    missed = one.crashed & (first >= one.onset)  # as at any threshold: a crash under the fault is a miss
    at = np.where(missed, np.inf, first)[:, one.failing]
    onset, no_return = one.onset[one.failing], one.no_return[one.failing]
    delay = restricted_delay(at, onset, no_return, onset)[1].mean(axis=1)
    return {
        "operating": {"stopped": stopped, "recall": recall},
        "alarm_delay": {"rate": rate, "delay": delay},
    }


def operating(one: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Share of healthy runs stopped and in-time recall over all thresholds. [K], [K]"""
    judged = one.select(one.failing & ~one.crashed)
    low, high = threshold_range(judged.steps, judged.scores, judged.onset, judged.no_return)
    stopped, found = operating_curve(low, high, peaks(one.select(one.healthy)))
    return stopped, found * (len(judged) / max(1, one.failing.sum()))


def exposure(one: Outcomes) -> np.ndarray:
    """Healthy steps of each run, up to a crash. Latent and cured runs are reported apart and give none. [N] int"""
    healthy = np.where(one.negative, one.last + 1, np.minimum(one.onset, one.last + 1))
    steps = np.minimum(healthy, one.judged + 1).astype(np.int64)
    return np.where(one.negative | np.isin(one.kind, FAILURES), steps, 0)


def operating_curve(low: np.ndarray, high: np.ndarray, peaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In-time recall against the share of healthy runs stopped, over every threshold.

    low, high: [F], `recall.threshold_range` of the failing runs. peaks: [H], largest scores of the
    healthy runs. Returns the share stopped and the recall, [K] each, by falling threshold, from
    (0, .) up. Recall need not rise with it: a lower threshold also stops failing runs too soon.
    """
    thresholds = np.unique(np.concatenate([low, high, peaks]))[::-1]
    stopped = (peaks[None, :] > thresholds[:, None]).mean(axis=1) if len(peaks) else np.zeros(len(thresholds))
    found = (low[None, :] <= thresholds[:, None]) & (thresholds[:, None] < high[None, :])
    return stopped, found.mean(axis=1) if len(low) else np.zeros(len(thresholds))


def frontier(stopped: np.ndarray, recall: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the best recall at a share stopped of at most x: where it rises, and to what. [J], [J]

    stopped, recall: [K], of `operating_curve`. The threshold is picked on the runs that it is measured on: a curve to
    look at, not a score to claim.
    """
    order = np.lexsort((-recall, stopped))
    best = np.maximum.accumulate(recall[order])
    rises = np.diff(best, prepend=-1.0) > 0
    return stopped[order][rises], best[rises]


def stop_rate(first: np.ndarray, end: np.ndarray, per: float) -> np.ndarray:
    """False alarms for `per` healthy steps watched, at each of T thresholds, under the stop protocol. [T]

    first: [T, N], first alarm of each run. end: [N], the step before which each run is healthy. A stretch is watched
    to its end, or to the alarm that stops it. NaN where nothing is watched.
    """
    stops, watched = (first < end).sum(axis=1), np.minimum(first + 1, end).sum(axis=1)
    return np.asarray(np.divide(per * stops, watched, out=np.full(len(stops), np.nan), where=watched > 0))
