"""Metric 5, by hand and against scikit-learn."""

import math
import warnings

import numpy as np
import pytest

from trainwreck.evaluation.scoring.equivalence_sets import as_sets
from trainwreck.evaluation.scoring.metrics.diagnosis import (
    NOT_IN_TIME,
    NOT_NAMED,
    by_family,
    chance,
    confusion,
    diagnosed,
    macro,
    majority_prior,
)

CAUSE = np.array(["a", "a", "a", "b", "c", "c"])
NAMED = [("a", "b"), ("b", "a"), ("a",), ("b",), (), ("x", "b", "c")]
FOUND = np.array([True, True, False, True, True, True])


def test_right_is_in_time_and_within_the_first_k() -> None:
    assert diagnosed(FOUND, CAUSE, NAMED, 1).tolist() == [True, False, False, True, False, False]
    assert diagnosed(FOUND, CAUSE, NAMED, 2).tolist() == [True, True, False, True, False, False]
    assert diagnosed(FOUND, CAUSE, NAMED, 3).tolist() == [True, True, False, True, False, True]


def test_unknown_is_right_for_a_cause_that_was_never_trained_on() -> None:
    named = [("unknown",), ("b", "unknown"), ("a",)]
    found, cause = np.ones(3, bool), np.array(["a", "a", "a"])
    assert diagnosed(found, cause, named, 1, unseen={"a"}).tolist() == [True, False, True]
    assert diagnosed(found, cause, named, 3, unseen={"a"}).tolist() == [True, True, True]
    assert diagnosed(found, cause, named, 3, unseen={"b"}).tolist() == [False, False, True]


def test_macro_weighs_causes_alike() -> None:
    assert macro(diagnosed(FOUND, CAUSE, NAMED, 2), CAUSE) == pytest.approx((2 / 3 + 1 + 0) / 3, abs=1e-12)
    assert math.isnan(macro(np.array([], bool), np.array([], str)))


def test_what_guessing_gets() -> None:
    assert chance(CAUSE, 1) == pytest.approx(1 / 3, abs=1e-12)
    assert chance(CAUSE, 5) == 1.0
    assert majority_prior(CAUSE, 1) == pytest.approx(3 / 6, abs=1e-12)
    assert majority_prior(CAUSE, 2) == pytest.approx(5 / 6, abs=1e-12)
    assert math.isnan(chance(np.array([], str), 1))
    assert math.isnan(majority_prior(np.array([], str), 1))


def test_families() -> None:
    family = {"a": "data", "b": "data", "c": "numerics"}
    assert by_family([("a", "b", "c"), ("x", "c"), ()], family) == [("data", "numerics"), ("x", "numerics"), ()]


def test_confusion_by_hand() -> None:
    found = confusion(FOUND, CAUSE, NAMED)
    assert found["causes"] == ["a", "b", "c"]
    assert found["answers"] == ["a", "b", "c", "x", NOT_NAMED, NOT_IN_TIME]
    assert found["counts"] == [[1, 1, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]]


def test_confusion_is_scikit_learns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        from sklearn.metrics import confusion_matrix
    random = np.random.default_rng(0)
    cause = random.choice(["a", "b", "c"], 200)
    answer = random.choice(["a", "b", "c"], 200)
    found = confusion(np.ones(200, bool), cause, [(one,) for one in answer.tolist()])
    expected = confusion_matrix(cause, answer, labels=["a", "b", "c"])
    assert np.array(found["counts"])[:, :3].tolist() == expected.tolist()


PAIRS = np.array(["a+b", "a+b", "c", "a"])


def test_of_two_causes_either_is_right() -> None:
    named = [("b",), ("c", "a"), ("c",), ("b",)]
    found = np.ones(4, bool)
    assert diagnosed(found, PAIRS, named, 1).tolist() == [True, False, True, False]
    assert diagnosed(found, PAIRS, named, 2).tolist() == [True, True, True, False]
    assert diagnosed(found, PAIRS, [("unknown",)] * 4, 1, unseen={"a+b"}).tolist() == [True, True, False, False]
    assert confusion(found, PAIRS, named)["causes"] == ["a", "a+b", "c"]


SETS = as_sets([["a", "c"]])


def test_within_a_set_any_of_it_is_right() -> None:
    assert SETS["a"] == {"c"}
    assert SETS["c"] == {"a"}
    named = [("c",), ("b",), ("a",), ("x", "a"), ("a",), ()]
    found = np.array([True, True, False, True, True, True])
    assert diagnosed(found, CAUSE, named, 1).tolist() == [False] * 6
    assert diagnosed(found, CAUSE, named, 1, sets=SETS).tolist() == [True, False, False, False, True, False]
    assert diagnosed(np.ones(1, bool), np.array(["a+b"]), [("c",)], 1, sets=SETS).tolist() == [True]


def test_a_set_makes_guessing_easier() -> None:
    assert chance(CAUSE, 1, SETS) == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3, abs=1e-12)
    # Of a set only the causes that are here count: the answers are drawn from these.
    assert chance(CAUSE, 1, as_sets([["a", "elsewhere"]])) == chance(CAUSE, 1)


def test_what_guessing_gets_where_causes_are_two() -> None:
    # Of three single causes one is named: right on a pair two times in three, on a single one in three.
    assert chance(PAIRS, 1) == pytest.approx((2 / 3 + 1 / 3 + 1 / 3) / 3, abs=1e-12)
    assert chance(PAIRS, 2) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3, abs=1e-12)
    assert chance(PAIRS, 9) == 1.0
    assert majority_prior(PAIRS, 1) == 0.75  # always "a"
    assert majority_prior(PAIRS, 2) == 0.75  # "a" and "b"
    assert majority_prior(PAIRS, 3) == 1.0
