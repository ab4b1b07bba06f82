"""Randomised thresholds: by hand, and the stop rate that they give, which is the budget."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.scoring.metrics import thresholds
from trainwreck.evaluation.scoring.metrics.thresholds import Peaks, Randomised, over_budgets, within_budget


def peaks(top: list[float], failed: int = 0, weights: list[float] | None = None) -> Peaks:
    """Calibration runs of equal weight; the last `failed` are ones on which the detector failed."""
    count = len(top)
    by = np.ones(count) if weights is None else np.array(weights)
    return Peaks(np.array(top), by, np.ones((1, count)), np.arange(count) >= count - failed)


def stopped(found: Randomised, score: float) -> float:
    """Chance that a run that peaks at a score is stopped."""
    return float(found.chances[score > found.levels].sum())


def test_examples_in_docstrings_run() -> None:
    found = doctest.testmod(thresholds)
    assert found.attempted
    assert not found.failed


def test_by_hand_without_ties() -> None:
    # Nine runs and a further one: at 0.15 of ten, one and a half. It is stopped above the highest peak for certain,
    # and between the highest and the second with one chance in two.
    found = within_budget(peaks([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), 0.15)
    chances = [stopped(found, score) for score in (9.5, 8.5, 7.5, 0.0)]
    assert chances == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-12)


def test_by_hand_with_ties() -> None:
    # Of ten runs in all two and a half may be stopped. One peaks at 5; of the four at 1 and the further one, at 1 as
    # well, one and a half of five may be: 0.3 each.
    found = within_budget(peaks([5.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), 0.25)
    chances = [stopped(found, score) for score in (6.0, 5.0, 3.0, 1.0, 0.5, 0.0)]
    assert chances == pytest.approx([1.0, 1.0, 1.0, 0.3, 0.0, 0.0], abs=1e-12)


def test_a_bare_alarm_has_its_point_between_never_and_its_default() -> None:
    # Six of 59 calibration runs alarm. Of 60 three may be stopped: three sevenths of the seven that alarm.
    found = within_budget(peaks([1.0] * 6 + [0.0] * 53), 0.05)
    assert stopped(found, 1.0) == pytest.approx(3 / 7, abs=1e-12)
    assert stopped(found, 0.0) == 0.0
    calm = within_budget(peaks([1.0] + [0.0] * 58), 0.05)  # one of 59: every alarm counts, and some quiet runs
    assert stopped(calm, 1.0) == 1.0
    assert stopped(calm, 0.0) == pytest.approx((3 - 1) / 59, abs=1e-12)


def test_infinite_scores_tie_with_each_other_and_outrank_all_others() -> None:
    found = within_budget(peaks([math.inf, math.inf, math.inf, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]), 0.2)
    assert stopped(found, math.inf) == pytest.approx(2 / 4, abs=1e-12)
    assert stopped(found, 1e308) == 0.0


def test_a_failure_of_the_detector_spends_the_budget_at_every_threshold() -> None:
    found = within_budget(peaks([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 0.0], failed=1), 0.15)
    assert [stopped(found, score) for score in (9.5, 8.5, 0.5)] == pytest.approx([0.5, 0.0, 0.0], abs=1e-12)
    assert stopped(within_budget(peaks([1.0] * 9, failed=3), 0.15), math.inf) == 0.0


def test_a_run_that_says_nothing_is_not_stopped_to_spend_a_budget() -> None:
    quiet = peaks([1.0] + [0.0] * 58)._replace(floor=0.0)  # three of 60 may be stopped, and two peak over 0
    found = within_budget(quiet, 0.05)
    assert [stopped(found, score) for score in (1.0, 0.5, 0.0)] == [1.0, 1.0, 0.0]
    assert stopped(within_budget(quiet._replace(floor=1.0), 0.05), 1.0) == 0.0
    area = over_budgets(quiet, 0.1)
    assert stopped(area, 0.0) == 0.0
    assert stopped(area, 0.5) == pytest.approx(1 - (1 / 59) / 0.1, abs=1e-12)


def test_runs_count_by_weight() -> None:
    # The first stands for half of the population, and each for as much of it as a further run at its peak.
    found = within_budget(peaks([3.0, 2.0, 1.0], weights=[0.5, 0.25, 0.25]), 0.4)
    one = 0.5**2 + 2 * 0.25**2  # the share of a further run
    assert stopped(found, 3.0) == pytest.approx(0.4 * (1 + one) / (0.5 + one), abs=1e-12)
    assert stopped(found, 2.0) == pytest.approx((0.4 * (1 + one) - 0.5) / (0.25 + one), abs=1e-12)
    assert stopped(found, 1.0) == 0.0


def test_without_calibration_runs_there_is_none() -> None:
    assert np.isnan(within_budget(peaks([]), 0.05).chances).all()
    assert np.isnan(over_budgets(peaks([]), 0.1).chances).all()


@given(
    top=st.lists(st.sampled_from([-2.0, 0.0, 1.0, 1.5, 7.0, math.inf]), min_size=1, max_size=30),
    budget=st.floats(0.0, 1.0),
    failed=st.integers(0, 3),
)
def test_whatever_the_peaks_a_further_one_of_them_is_stopped_at_the_budget(
    top: list[float], budget: float, failed: int
) -> None:
    """Drawn from the calibration runs and itself, as exchangeability has it, in expectation over what is left out."""
    rates = []
    for i in range(len(top)):
        others = top[:i] + top[i + 1 :]
        rates.append(stopped(within_budget(peaks(others), budget), top[i]) if others else budget)
    assert np.mean(rates) == pytest.approx(budget, abs=1e-9)
    found = within_budget(peaks(top, failed=min(failed, len(top))), budget)
    assert found.chances.sum() == pytest.approx(1.0, abs=1e-9)
    assert (found.chances >= 0).all()


def drawn(random: np.random.Generator, kind: str, count: int) -> np.ndarray:
    scores = random.normal(size=count)
    if kind == "tied":
        return np.round(scores)
    if kind == "bare alarm":
        return (scores > 1.0).astype(float)
    return np.where(scores > 1.2, np.inf, scores) if kind == "infinite at the top" else scores


@pytest.mark.parametrize("kind", ["continuous", "tied", "bare alarm", "infinite at the top"])
@pytest.mark.parametrize("count", [20, 400])
def test_the_realised_stop_rate_is_the_budget(kind: str, count: int) -> None:
    """Simulated detectors, thresholds from some calibration runs, stop rate on others: the mean is the budget."""
    random = np.random.default_rng(count)
    rates: dict[float, list[float]] = {0.01: [], 0.05: []}
    for _ in range(200):
        calibration, test = drawn(random, kind, count), drawn(random, kind, 2000)
        for budget, found in rates.items():
            threshold = within_budget(peaks(calibration.tolist()), budget)
            over = (test[None] > threshold.levels[:, None]).mean(axis=1)
            found.append(float(over @ threshold.chances))
    for budget, found in rates.items():
        error = np.std(found) / math.sqrt(len(found))
        assert abs(np.mean(found) - budget) < 3.5 * error
        assert error < budget / 5


def test_weights_make_another_mix_of_bases_right() -> None:
    """Calibration runs half of one base, half of another; measured runs nine in ten of the noisier one."""
    random = np.random.default_rng(0)
    weighted, plain = [], []
    for _ in range(200):
        calibration = np.concatenate([random.normal(size=150), random.normal(size=150, scale=3.0)])
        test = np.concatenate([random.normal(size=200), random.normal(size=1800, scale=3.0)])
        for rates, weights in ((weighted, np.repeat([0.1, 0.9], 150) / 150), (plain, np.ones(300))):
            found = within_budget(Peaks(calibration, weights, np.ones((1, 300)), np.zeros(300, dtype=bool)), 0.05)
            rates.append(float((test[None] > found.levels[:, None]).mean(axis=1) @ found.chances))
    assert np.mean(weighted) == pytest.approx(0.05, abs=0.004)
    assert np.mean(plain) > 0.07


def test_resamples_move_the_threshold() -> None:
    top = np.arange(20.0)
    draws = np.ones((2, 20))
    draws[1, 19] = 0.0  # without the highest
    found = within_budget(Peaks(top, np.ones(20), draws, np.zeros(20, dtype=bool)), 0.05)
    assert found.samples.shape == (2, len(found.levels))
    assert found.samples.sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-9)
    assert found.samples[0] == pytest.approx(found.chances, abs=1e-12)
    over = [float(found.samples[i][found.levels < 18.5].sum()) for i in range(2)]
    assert over[0] < 0.1 < over[1]


def test_area_by_hand() -> None:
    # Ten runs, one at each peak from 0 to 9, up to 20 % stopped. A score of 8.5 is stopped from one run in ten on, and
    # one that ties with the highest in proportion before that.
    found = over_budgets(peaks([float(i) for i in range(10)]), 0.2)
    assert stopped(found, 9.5) == pytest.approx(1.0, abs=1e-12)
    assert stopped(found, 8.5) == pytest.approx(0.5, abs=1e-12)
    assert stopped(found, 9.0) == pytest.approx(0.75, abs=1e-12)
    assert stopped(found, 7.5) == 0.0


def test_area_is_the_integral_of_the_curve() -> None:
    """Against thresholds at a fine grid of shares, each with as many further runs as make no difference."""
    random = np.random.default_rng(1)
    top = np.round(random.normal(size=80), 1)
    many = Peaks(np.repeat(top, 200), np.ones(16_000), np.ones((1, 16_000)), np.zeros(16_000, dtype=bool))
    found = over_budgets(peaks(top.tolist()), 0.1)
    grid = (np.arange(200) + 0.5) / 2000
    for score in (0.5, 1.2, 1.7, 2.3):
        expected = np.mean([stopped(within_budget(many, share), score) for share in grid])
        assert stopped(found, score) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.4])
def test_a_threshold_is_the_same_wherever_its_levels_are_sought_first(
    budget: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    draws = random.integers(0, 3, size=(30, 90)).astype(float)
    some = Peaks(np.round(random.normal(size=90), 1), random.random(90), draws, np.arange(90) >= 88, floor=-1.0)
    found = within_budget(some, budget), over_budgets(some, budget)
    assert len(found[0].levels) > 2
    monkeypatch.setattr(thresholds, "AT_FIRST", 1)
    assert (within_budget(some, budget), over_budgets(some, budget)) == found
