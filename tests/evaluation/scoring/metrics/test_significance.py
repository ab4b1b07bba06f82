"""McNemar, permutation, Holm and ranks, by hand and against scipy."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test

from trainwreck.evaluation.scoring.metrics.significance import holm, mcnemar, paired_permutation, tied_ranks

BITS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def test_mcnemar_by_hand() -> None:
    first = np.array([True] * 6 + [False])
    second = np.array([False] * 5 + [True, True])
    # Five against one: 2 x (1 + 6) / 64.
    assert mcnemar(first, second) == pytest.approx(14 / 64, abs=1e-12)


@given(BITS)
def test_mcnemar_is_the_sign_test_on_the_runs_that_differ(pairs: list[tuple[bool, bool]]) -> None:
    first, second = np.array(pairs).T
    only_first, differing = int((first & ~second).sum()), int((first ^ second).sum())
    expected = binomtest(only_first, differing).pvalue if differing else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, abs=1e-12)
    assert mcnemar(first, second) == mcnemar(second, first)
    assert mcnemar(first, first) == 1.0


def test_permutation_by_hand() -> None:
    # Signs of (1, 2, 4): of 8 sums only 7 and -7 are as large as 7.
    assert paired_permutation(np.array([1.0, 2.0, 4.0]), np.arange(3)) == pytest.approx(2 / 8, abs=1e-12)
    # As one cluster the pair is swapped as a whole: nothing can be said.
    assert paired_permutation(np.array([1.0, 2.0, 4.0]), np.zeros(3, int)) == 1.0


def test_permutation_is_scipys() -> None:
    values = np.random.default_rng(2).normal(0.4, 1.0, 11)
    expected = permutation_test((values, np.zeros(11)), lambda a, b: (a - b).sum(), permutation_type="samples").pvalue
    assert paired_permutation(values, np.arange(11)) == pytest.approx(expected, abs=1e-12)


def test_permutation_by_sampling_is_near_the_exact_one() -> None:
    values = np.random.default_rng(5).normal(0.2, 1.0, 14)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 14)).reshape(14, -1).T
    exact = (np.abs(signs @ values) >= abs(values.sum()) - 1e-9).mean()
    assert exact > 0.1
    assert paired_permutation(values, np.arange(14)) == pytest.approx(exact, abs=0.015)  # three standard errors


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(1, 30))
def test_no_difference_is_no_evidence(values: list[float], clusters: int) -> None:
    zeros = np.zeros(len(values))
    cluster = np.arange(len(values)) % clusters
    assert paired_permutation(zeros, cluster) == 1.0
    p = paired_permutation(np.array(values), cluster, resamples=100)
    assert 0.0 < p <= 1.0
    assert p == paired_permutation(-np.array(values), cluster, resamples=100)


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


def test_mcnemar_is_the_binomial_sum() -> None:
    for more, fewer in ((0, 0), (1, 0), (7, 3), (60, 41)):
        first = np.repeat([True, False], [more, fewer])
        tail = sum(comb(more + fewer, i) for i in range(fewer + 1))
        assert mcnemar(first, ~first) == pytest.approx(min(1.0, 2 * tail / 2 ** (more + fewer)), abs=1e-12)


def test_ranks_with_ties() -> None:
    pairs = {(0, 2), (0, 3), (2, 3)}
    assert tied_ranks(5, lambda i, j: (i, j) in pairs) == [1, 1, 3, 4, 4]
    assert tied_ranks(3, lambda i, j: False) == [1, 1, 1]
    assert tied_ranks(0, lambda i, j: True) == []
