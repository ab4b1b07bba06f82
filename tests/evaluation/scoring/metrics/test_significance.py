"""Permutation, Holm and ranks, by hand and by simulation."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, permutation_test, t

from trainwreck.evaluation.scoring.metrics.significance import Permutation, holm, tied_ranks


def alone(count: int) -> Permutation:
    """One run a scenario, each on a seed of its own."""
    return Permutation(np.arange(count), np.arange(count))


def test_by_hand() -> None:
    # Signs of (1, 2, 4): of 8 sums only 7 and -7 are as large as 7; Student's test of them says less.
    difference = np.array([1.0, 2.0, 4.0])
    student = 2 * t.sf(7 / sqrt(3 * ((difference - 7 / 3) ** 2).sum() / 2), 2)
    assert student < 0.25
    assert alone(3).p_value(difference) == pytest.approx(2 / 8, abs=1e-12)
    # As one scenario the pair is swapped as a whole: nothing can be said.
    assert Permutation(np.zeros(3), np.arange(3)).p_value(difference) == 1.0


def test_without_clusters_it_is_scipys() -> None:
    """Students' statistic rises with the mean, so that its permutation is that of the mean."""
    values = np.random.default_rng(2).normal(0.4, 1.0, 11)
    expected = permutation_test((values, np.zeros(11)), lambda a, b: (a - b).sum(), permutation_type="samples").pvalue
    assert alone(11).p_value(values) >= expected - 1e-12
    assert alone(11).p_value(values) == pytest.approx(expected, abs=0.02)


def test_sampling_is_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).normal(0.2, 1.0, 12)
    exact = alone(12).p_value(values)
    monkeypatch.setattr("trainwreck.evaluation.scoring.metrics.significance.EXACT_CLUSTERS", 0)
    assert exact > 0.1
    assert alone(12).p_value(values) == pytest.approx(exact, abs=0.015)  # three standard errors


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(1, 30))
def test_no_difference_is_no_evidence(values: list[float], scenarios: int) -> None:
    test = Permutation(np.arange(len(values)) % scenarios, np.arange(len(values)) // scenarios, resamples=100)
    assert test.p_value(np.zeros(len(values))) == 1.0
    p = test.p_value(np.array(values))
    assert 0.0 < p <= 1.0
    assert p == test.p_value(-np.array(values))


@pytest.mark.parametrize(
    ("scenarios", "seeds", "of_scenario", "of_seed"),
    [
        (60, 10, 1.0, 0.2),
        (60, 10, 0.5, 0.5),
        (60, 10, 0.0, 1.0),
        (20, 10, 0.5, 0.3),
        (8, 10, 1.0, 0.3),
        (60, 3, 0.5, 0.5),
    ],
)
def test_detectors_that_are_equally_good_are_seldom_told_apart(
    scenarios: int, seeds: int, of_scenario: float, of_seed: float
) -> None:
    """At most one in twenty, though what runs of a scenario and of a seed share differs from run to run."""
    random = np.random.default_rng(1)
    scenario, seed = np.repeat(np.arange(scenarios), seeds), np.tile(np.arange(seeds), scenarios)
    test = Permutation(scenario, seed, resamples=399)
    trials, found = 300, 0
    for _ in range(trials):
        shared = of_scenario * random.normal(size=(scenarios, 1)) + of_seed * random.normal(size=(1, seeds))
        found += test.p_value((shared + random.normal(size=(scenarios, seeds))).ravel()) < 0.05
    assert found / trials < 0.05 + 3 * sqrt(0.05 * 0.95 / trials)


def test_what_runs_count_as_independent_would_find_too_often() -> None:
    random = np.random.default_rng(1)
    independent, found = alone(600), 0
    independent.resamples = 199
    for _ in range(60):
        found += independent.p_value(np.repeat(random.normal(size=60), 10) + 0.1 * random.normal(size=600)) < 0.05
    assert found / 60 > 0.3


def test_seeds_of_healthy_runs_say_nothing_of_how_many_seeds_failing_runs_have() -> None:
    random = np.random.default_rng(3)
    difference = (0.15 + 0.5 * random.normal(size=(1, 6)) + random.normal(size=(40, 6))).ravel()
    scenario, seed = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    p_value = Permutation(scenario, seed).p_value(difference)
    assert 0.02 < p_value < 0.9
    healthy = np.arange(300)
    more = Permutation(np.append(scenario, 40 + healthy % 5), np.append(seed, 6 + healthy))
    assert more.p_value(np.append(difference, np.zeros(300))) == p_value


def test_a_difference_is_found() -> None:
    random = np.random.default_rng(0)
    difference = 0.5 + random.normal(size=(40, 1)) * 0.5 + random.normal(size=(40, 10)) * 0.5
    scenario, seed = np.repeat(np.arange(40), 10), np.tile(np.arange(10), 40)
    assert Permutation(scenario, seed).p_value(difference.ravel()) < 0.001


@settings(max_examples=12)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_holms(p_values: list[float]) -> None:
    """The k-th smallest of n times n - k + 1, never below the one before it, never above 1."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    expected, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, p_values[i] * (len(p_values) - place)))
        expected[i] = largest
    assert holm(p_values).tolist() == pytest.approx(expected, abs=1e-12)


def test_ranks_with_ties() -> None:
    pairs = {(0, 2), (0, 3), (2, 3)}
    assert tied_ranks(5, lambda best, other: 0.001 if (best, other) in pairs else 0.9, 0.05) == [1, 1, 3, 4, 4]
    assert tied_ranks(3, lambda best, other: 1.0, 0.05) == [1, 1, 1]
    assert tied_ranks(0, lambda best, other: 1.0, 0.05) == []
    # 0.02 of the third of three is 0.06 after Holm, and is tested before the two of 0.03; of the first it is 0.02.
    assert tied_ranks(4, lambda best, other: 0.02 if other == 3 else 0.03 + 0.5 * (other == 1), 0.05) == [1, 1, 1, 1]
    assert tied_ranks(2, lambda best, other: 0.02, 0.05) == [1, 2]


@given(st.integers(0, 8), st.integers(0, 5), st.lists(st.sampled_from([0.001, 0.02, 0.04, 0.9]), min_size=12))
def test_no_entry_below_moves_a_rank(count: int, more: int, drawn: list[float]) -> None:
    def p_value(best: int, other: int) -> float:
        return drawn[(5 * best + 7 * other) % len(drawn)]

    assert tied_ranks(count + more, p_value, 0.05)[:count] == tied_ranks(count, p_value, 0.05)


def test_copies_above_an_entry_hide_nothing() -> None:
    """Entries like one that differs from the best, put before it: the first of them is tested as it was."""

    def ranks(copies: int) -> list[int]:
        p_values = [0.9] * 5 + [0.004] * (copies + 1)
        return tied_ranks(6 + copies + 1, lambda best, other: p_values[other - 1] if best == 0 else 0.9, 0.05)

    assert ranks(0)[-1] == ranks(40)[-1] == 7


def test_equal_entries_are_cut_as_often_as_by_all_that_are_there() -> None:
    """Where all are equal, a correction for those above an entry finds as many differences as one for all below."""
    draw, cut, cut_by_all = np.random.default_rng(0), 0, 0
    for _ in range(500):
        means = np.sort(draw.standard_normal(10))[::-1]

        def p_value(best: int, other: int, means: np.ndarray = means) -> float:
            return float(2 * norm.sf((means[best] - means[other]) / np.sqrt(2)))

        cut += len(set(tied_ranks(10, p_value, 0.05))) > 1
        cut_by_all += bool((holm([p_value(0, other) for other in range(1, 10)]) < 0.05).any())
    assert cut_by_all <= cut <= cut_by_all + 5  # of 500
