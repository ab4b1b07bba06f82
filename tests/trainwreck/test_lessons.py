"""What the exercises are checked with."""

import doctest

import numpy as np
import pytest

from trainwreck import lessons
from trainwreck.lessons import check


def test_the_example_runs():
    assert doctest.testmod(lessons, raise_on_error=True).attempted > 0


@pytest.mark.parametrize(
    ("answer", "right", "within", "verdict"),
    [
        (3, 3, 0.0, "right"),
        (3, 4, 0.0, "not right yet"),
        (3.01, 3.0, 0.01, "right"),
        (3.1, 3.0, 0.01, "not right yet"),
        (..., 3, 0.0, "open"),
        ("a", "a", 0.0, "right"),
        ("b", "a", 0.0, "not right yet"),
        (3, "a", 0.0, "not right yet"),
        ("a", 3, 0.0, "not right yet"),
        (None, 3, 0.0, "not right yet"),
        (np.float32(np.nan), np.nan, 0.0, "right"),
        (np.array([1, 2]), [1, 2], 0.0, "right"),
        ([1, 2, 3], [1, 2], 0.0, "not right yet"),
        ([1, [2]], [1, 2], 0.0, "not right yet"),
        (np.bool_(True), True, 0.0, "right"),
        (np.array([True, False]), True, 0.0, "not right yet"),
        (4, lambda it: it % 2 == 0, 0.0, "right"),
        (3, lambda it: it % 2 == 0, 0.0, "not right yet"),
        (..., lambda it: it % 2 == 0, 0.0, "open"),
    ],
)
def test_verdicts(capsys, answer, right, within, verdict):
    check("it", answer, right, within=within)
    assert capsys.readouterr().out.startswith(f"it: {verdict}")


def test_a_wrong_answer_is_shown_with_the_hint_and_a_right_one_without(capsys):
    check("it", 2.0 / 3, 1.0, hint="look at s")
    check("it", 1.0, 1.0, hint="look at s")
    assert capsys.readouterr().out == "it: not right yet, you have 0.666667; look at s\nit: right\n"


def test_an_answer_that_breaks_the_question_is_wrong(capsys):
    """A learner's mistake must not end the notebook."""
    check("it", "text", lambda it: it > 3)
    assert capsys.readouterr().out.startswith("it: not right yet, you have 'text'")
