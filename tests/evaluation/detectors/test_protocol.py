"""What counts as a verdict, and the one line that says what does not."""

import doctest
import math

import numpy as np
import pytest

from trainwreck.evaluation.detectors import base, streaming
from trainwreck.evaluation.detectors.base import Detector, OutputError, Verdict, finite_score, normalise
from trainwreck.evaluation.replay import profiles

KNOWN = frozenset({"high_lr", "no_warmup"})


@pytest.mark.parametrize(
    ("output", "threshold", "verdict"),
    [
        (Verdict(2.5, True, ("high_lr",)), None, Verdict(2.5, True, ("high_lr",))),
        (Verdict(2, np.True_, ["no_warmup", "unknown"]), None, Verdict(2.0, True, ("no_warmup", "unknown"))),
        (True, None, Verdict(1.0, True)),
        (np.False_, None, Verdict(0.0, False)),
        (3, None, Verdict(3.0, False)),
        (np.float32(0.5), 0.25, Verdict(0.5, True)),
        (0.25, 0.25, Verdict(0.25, False)),
        (None, 0.25, Verdict(0.0, False)),
    ],
)
def test_what_an_output_stands_for(output: object, threshold: float | None, verdict: Verdict) -> None:
    found = normalise(output, threshold=threshold, known=KNOWN)
    assert found == verdict
    assert [type(part) for part in found] == [float, bool, tuple]


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("alarm", "update returned 'alarm'; allowed: Verdict"),
        ((1.0, True), "update returned (1.0, True)"),
        (np.ones(2), "update returned"),
        (1 + 2j, "update returned (1+2j)"),
        (math.nan, "score: nan is not allowed"),
        (Verdict(math.nan), "score: nan is not allowed"),
        (Verdict("high"), "score: 'high' is not allowed"),
        (Verdict(1.0, 1), "alarm: 1 is not allowed"),
        (Verdict(1.0, True, "high_lr"), "causes: 'high_lr' is not allowed"),
        (Verdict(1.0, True, (3,)), "causes: 3 is not allowed"),
        (Verdict(1.0, True, ("high_lrr",)), "did you mean 'high_lr'?"),
        (Verdict(1.0, True, ("high_lr", "high_lr")), "names a cause twice"),
    ],
)
def test_anything_else_is_refused_in_one_line(output: object, complaint: str) -> None:
    with pytest.raises(OutputError) as caught:
        normalise(output, threshold=None, known=KNOWN)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_cause_goes_where_none_are_known() -> None:
    assert normalise(Verdict(1.0, True, ("mine",)), threshold=None, known=None).causes == ("mine",)


def test_scores_that_a_rule_cannot_give() -> None:
    assert finite_score(math.nan) == 0.0
    assert finite_score(math.inf) == -finite_score(-math.inf) == 1e300


def test_a_detector_without_update_says_so() -> None:
    detector = Detector()
    detector.reset(None)
    with pytest.raises(NotImplementedError):
        detector.update({"step": 0})


@pytest.mark.parametrize("module", [base, profiles, streaming], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0
    assert outcome.failed == 0
