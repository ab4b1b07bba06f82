"""Two groups apart or not, against chance; and the sets."""

import numpy as np
import pytest
from scipy import stats

from trainwreck.evaluation.audits.confusable.separation import (
    chance,
    discoveries,
    held_out,
    joined,
    p_values,
    t_statistic,
    told,
)

FOLDS = 8
SIDE = np.repeat([1.0, -1.0], FOLDS)
BLOCK = np.tile(np.arange(FOLDS), 2)


def pair(seed: int, shift: float = 0.0, dimensions: int = 30, shared: float = 0.0) -> np.ndarray:
    """Two groups of 8 runs, the second shifted in one feature; `shared` noise goes with the seed."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((2 * FOLDS, dimensions)) * np.sqrt(1 - shared)
    features += np.tile(random.standard_normal((FOLDS, dimensions)), (2, 1)) * np.sqrt(shared)
    features[FOLDS:, 0] -= shift
    return np.repeat(features[:, None], FOLDS, axis=1)


def test_a_difference_is_found_and_noise_is_not() -> None:
    null = chance(32, FOLDS, 300)
    far = [told(pair(seed, 9.0), SIDE, BLOCK) for seed in range(10)]
    assert min(one.won for one in far) > 0.9
    assert (p_values(np.array([one.t for one in far]), null) < 0.05).mean() > 0.9
    none = np.array([told(pair(100 + seed), SIDE, BLOCK).t for seed in range(60)])
    share = (p_values(none, null) < 0.05).mean()
    assert stats.binom.sf(share * 60 - 1, 60, 0.05) > 0.001  # no more than the rate allows
    assert np.mean([told(pair(200 + seed), SIDE, BLOCK).won for seed in range(40)]) == pytest.approx(0.5, abs=0.12)


def test_chance_is_wider_than_students_t() -> None:
    assert np.quantile(chance(32, FOLDS, 300), 0.95) > stats.t.ppf(0.95, FOLDS - 1) + 0.5


def test_runs_of_one_seed_are_not_compared() -> None:
    # Within a seed the second run is below the first by a hair, between seeds there is nothing to tell by.
    features = pair(0, shared=1.0)
    features[FOLDS:] -= 1e-3
    assert told(features, SIDE, BLOCK).won < 0.7


def test_equal_runs_are_even() -> None:
    one = told(np.tile(pair(0)[:FOLDS], (2, 1, 1)), SIDE, BLOCK)
    assert (one.won, one.t) == (0.5, pytest.approx(0.0, abs=1e-6))


def test_two_blocks_are_held_out() -> None:
    assert held_out(np.arange(4), 3, 4).tolist() == [True, False, False, True]
    assert held_out(np.arange(4), np.arange(4)[:, None], 4).sum() == 8


def test_t_by_hand() -> None:
    assert t_statistic(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / (1 / np.sqrt(3)), rel=1e-12)
    assert t_statistic(np.zeros(3)) == 0.0


def test_p_values_count_the_null() -> None:
    null = np.arange(9.0)
    assert p_values(np.array([-1.0, 4.0, 8.0, 9.0]), null).tolist() == [1.0, 0.6, 0.2, 0.1]


def test_discoveries_are_scipys() -> None:
    random = np.random.default_rng(0)
    p = np.concatenate([random.random(50), random.random(30) / 100])
    assert discoveries(p, 0.05).tolist() == (stats.false_discovery_control(p) <= 0.05).tolist()
    assert not discoveries(np.ones(5), 0.05).any()
    assert not len(discoveries(np.zeros(0), 0.05))


def test_no_set_holds_two_that_are_apart() -> None:
    names = list("abcd")
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    # a - b - c is a chain of pairs that are not told apart, but a and c are: a single linkage would join the three.
    apart = np.array([False, True, True, False, True, True])
    assert joined(names, pairs, apart, np.array([0.5, 1.0, 1.0, 0.6, 1.0, 1.0])) == [["a", "b"]]
    assert joined(names, pairs, apart, np.array([0.6, 1.0, 1.0, 0.5, 1.0, 1.0])) == [["b", "c"]]
    assert joined(names, pairs, np.zeros(6, bool), np.full(6, 0.5)) == [["a", "b", "c", "d"]]
    assert joined(names, pairs, np.ones(6, bool), np.ones(6)) == []
    assert joined(["a"], [], np.zeros(0, bool), np.zeros(0)) == []
