"""Where a detector's headline comes from, and what other thresholds would give."""

from typing import Any

import numpy as np

from trainwreck.evaluation.constants import RATE_STEPS
from trainwreck.evaluation.dataset.schema import FAILURES, HELD_OUT, JOINT
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.evaluation.scoring.metrics.curves import frontier, operating_curve, stop_rate
from trainwreck.evaluation.scoring.metrics.delay import restricted_delay
from trainwreck.evaluation.scoring.metrics.false_alarms import Share, false_stop, healthy_steps
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, in_time, peak, threshold_range
from trainwreck.evaluation.scoring.outcomes import Outcomes
from trainwreck.evaluation.scoring.reference import Baseline

PAIRS = "pairs"
THRESHOLDS = 40  # of the curve of false alarms against delay


def breakdown(one: Outcomes, frame: Baseline, first: np.ndarray) -> dict[str, dict[str, Share]]:
    """In-time recall by family, scenario and what was held out; share stopped by look-alike.

    first: [N], first alarm within the headline budget. Families have the interval of the bootstrap over twin sets,
    and where none or all of their runs are found, which every resample repeats, the exact binomial one. So have
    scenarios, with so few runs, each mostly a twin set of its own, that resampling them says little. Failures of two
    families at once are one group, `PAIRS`.
    """
    families = np.array([PAIRS if JOINT in name else name for name in one.family.tolist()])
    found = in_time(first, one.onset, one.no_return)
    by_family, by_scenario, by_held_out = {}, {}, {}
    for name in np.unique(families[one.failing]).tolist():
        by_family[name] = _resampled(found, one.failing & (families == name), frame)
    for name in HELD_OUT:
        if (unseen := one.failing & one.unseen(name)).any():
            by_held_out[name] = _resampled(found, unseen, frame)
    for name in np.unique(one.scenario[one.failing]).tolist():
        chosen = found[one.failing & (one.scenario == name)]
        events = int(chosen.sum())
        interval = binomial_interval(events, len(chosen))
        by_scenario[name] = Share(events / len(chosen), *interval, events, len(chosen))
    stopped = {
        name: false_stop(first[one.look_alike & (one.scenario == name)])
        for name in np.unique(one.scenario[one.look_alike]).tolist()
    }
    return {"family": by_family, "scenario": by_scenario, "held_out": by_held_out, "look_alike": stopped}


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


def peaks(healthy: Outcomes) -> np.ndarray:
    """Largest score of each healthy run. One whose detector crashed counts as stopped at every threshold."""
    return np.where(healthy.crashed, np.inf, peak(healthy.scores))


def exposure(one: Outcomes) -> np.ndarray:
    """Healthy steps of each run, up to a crash. Latent and cured runs are reported apart and give none. [N] int"""
    steps = np.minimum(healthy_steps(one.negative, one.last, one.onset), one.judged + 1).astype(np.int64)
    return np.where(one.negative | np.isin(one.kind, FAILURES), steps, 0)


def _resampled(found: np.ndarray, mask: np.ndarray, frame: Baseline) -> Share:
    events, runs = int(found[mask].sum()), int(mask.sum())
    if events in (0, runs):
        return Share(events / runs, *binomial_interval(events, runs), events, runs)
    return Share(*frame.bootstrap.mean(found, mask), events, runs)
