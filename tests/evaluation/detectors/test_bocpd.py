"""BOCPD against the posterior by brute force: every division of a short series, each with its exact evidence."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.detectors.generic.bocpd import Bocpd, BocpdGated


def fed(detector: Bocpd, losses: Any) -> Bocpd:
    detector.reset(None)
    for loss in losses:
        detector.update({"loss": float(loss)})
    return detector


def evidence(x: np.ndarray, centre: float) -> float:
    """Log marginal likelihood of a normal segment under the prior with kappa, alpha and beta of 1 (Murphy 2007)."""
    n = len(x)
    kappa, alpha = 1.0 + n, 1.0 + n / 2
    beta = 1.0 + 0.5 * np.sum((x - x.mean()) ** 2) + n * (x.mean() - centre) ** 2 / (2 * kappa)
    return float(math.lgamma(alpha) - alpha * math.log(beta) - 0.5 * math.log(kappa) - n / 2 * math.log(2 * math.pi))


def posterior(x: np.ndarray, hazard: float) -> np.ndarray:
    """Chance of each length of the last segment, 1 to n, over all 2^(n-1) divisions."""
    n = len(x)
    total = np.zeros(n)
    for cuts in itertools.product([False, True], repeat=n - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), n]
        log_p = sum(evidence(x[a:b], x[0]) for a, b in itertools.pairwise(bounds))
        log_p += sum(cuts) * math.log(hazard) + (n - 1 - sum(cuts)) * math.log1p(-hazard)
        total[bounds[-1] - bounds[-2] - 1] += math.exp(log_p)
    return np.asarray(total / total.sum())


@pytest.mark.parametrize("seed", range(3))
def test_run_lengths_are_the_exact_posterior(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(9)
    x[6:] += 4.0
    detector = fed(Bocpd(hazard=0.1), x)
    # Its own list begins with "a new segment comes before the next value", which has the chance of the hazard.
    assert np.exp(detector.log_p[0]) == pytest.approx(0.1)
    assert np.exp(detector.log_p[1:]) / 0.9 == pytest.approx(posterior(x, 0.1), abs=1e-12)


def test_the_score_is_the_log_odds_of_a_young_segment() -> None:
    x = np.random.default_rng(1).standard_normal(12)
    x[9:] += 5.0
    detector = Bocpd(hazard=0.05, recent=4)
    fed(detector, x[:-1])
    chances = posterior(x, 0.05)
    odds = math.log(chances[:4].sum() / chances[4:].sum())
    verdict = detector.update({"loss": float(x[-1])})
    assert verdict.score == pytest.approx(odds, abs=1e-9)
    assert verdict.alarm is (odds > 0.0) is True


def test_the_longest_run_length_stands_for_all_longer_ones() -> None:
    x = np.random.default_rng(2).standard_normal(400)
    detector = fed(Bocpd(longest=64), x)
    assert len(detector.log_p) == len(detector.centre) == len(detector.deviation) == 64
    assert np.exp(detector.log_p).sum() == pytest.approx(1.0)
    assert np.exp(detector.log_p[-1]) > 0.5


def test_a_jump_alarms_at_once_and_calm_does_not() -> None:
    x = np.random.default_rng(3).standard_normal(300)
    x[200:] += 8.0
    detector = Bocpd()
    detector.reset(None)
    alarms = [detector.update({"loss": float(v)}).alarm for v in x]
    assert alarms.index(True) == 200


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_one_value_that_is_not_finite_silences_it_for_ever_but_not_behind_the_gate(broken: float) -> None:
    rng = np.random.default_rng(4)
    losses = [*(2.0 + 0.02 * rng.standard_normal(100)), broken, *(2.0 + 0.02 * rng.standard_normal(100)), 60.0, 60.0]
    found = {}
    for detector in (Bocpd(), BocpdGated()):
        detector.reset(None)
        alarms = [detector.update({"loss": float(loss)}).alarm for loss in losses]
        found[type(detector)] = [step for step, alarm in enumerate(alarms) if alarm]
    assert found[Bocpd] == []
    assert 100 in found[BocpdGated]
    assert 201 in found[BocpdGated]
