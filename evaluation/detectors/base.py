"""What a detector is: rows in, verdicts out, nothing else in between.

A detector is told nothing but `reset(context)` at the start of a run and `update(row)` for each
row. It has no access to the run's length, its label, its name or other runs.
"""

import math
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from trainwreck.evaluation.constants import UNKNOWN
from trainwreck.evaluation.errors import unknown

Row = Mapping[str, Any]
"""Signal name to float, list of float, or None where nothing was logged; and "step", an int."""

Context = dict[str, Any]
"""The declared configuration: what the practitioner believes is running."""

LARGEST_SCORE = 1e300
LARGEST = sys.float_info.max


class Verdict(NamedTuple):
    """What a detector says of one row.

    score: higher is more alarming; not NaN. alarm: the detector's own decision at its published
    default. causes: cause ids, the likeliest first; may be empty.
    """

    score: float
    alarm: bool = False
    causes: tuple[str, ...] = ()


QUIET = Verdict(0.0)


class OutputError(ValueError):
    """A detector returned something that is not a verdict. The message is one line."""


class Detector:
    """Base class of a detector; any class with `reset` and `update` serves as well.

    `update` returns a Verdict, or for convenience a bool (score 1 or 0 with that alarm), a number
    (the score; an alarm where it exceeds `default_threshold`, never where that is None), or None
    (score 0, no alarm). A new object is made for every run, so the class must construct without
    arguments.

    >>> class LossAbove(Detector):
    ...     name = "loss_above"
    ...     rule = "loss > 5"
    ...
    ...     def update(self, row):
    ...         return row["loss"] is not None and row["loss"] > 5.0
    >>> detector = LossAbove()
    >>> detector.reset(None)
    >>> [detector.update({"step": step, "loss": loss}) for step, loss in enumerate([4.2, None, 6.0])]
    [False, False, True]
    """

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""  # one line
    source: ClassVar[str] = ""  # paper, project or document
    blind_spots: ClassVar[str] = ""  # what it cannot see, and what fools it
    causes: ClassVar[tuple[str, ...]] = ()  # the cause ids it may name
    signals: ClassVar[tuple[str, ...]] = ()  # the signals it reads
    requires: ClassVar[tuple[str, ...]] = ()  # libraries of the extra `monitors` that it needs, by import name
    default_threshold: ClassVar[float | None] = None

    def reset(self, context: Context | None) -> None:
        """Begin a run. context: the declared configuration, None on the blind track."""

    def update(self, row: Row) -> Verdict | bool | float | None:
        """Judge one row; see the class for what may be returned."""
        raise NotImplementedError


def finite_score(value: float) -> float:
    """A score that the protocol accepts: 0 for NaN (the rule is blind there), infinity cut to 1e300."""
    return 0.0 if math.isnan(value) else max(-LARGEST_SCORE, min(LARGEST_SCORE, value))


def normalise(output: object, *, threshold: float | None, known: Collection[str] | None) -> Verdict:
    """The Verdict that a detector's output stands for; an infinite score as the largest number.

    threshold: the class's `default_threshold`. known: allowed cause ids besides "unknown"; None
    allows any. Raises OutputError for anything else: a string, a score of NaN, an unknown cause.
    """
    if output is False or output is None:
        return QUIET
    if isinstance(output, Verdict):
        if output.causes == () and output.alarm is False:
            return Verdict(_finite(output.score))
        return _checked(output, known)
    if isinstance(output, (bool, np.bool_)):
        return Verdict(float(output), bool(output))
    if isinstance(output, Real):
        score = _finite(output)
        return Verdict(score, threshold is not None and score > threshold)
    raise OutputError(f"update returned {_brief(output)}; allowed: Verdict, bool, a number, None")


def _checked(verdict: Verdict, known: Collection[str] | None) -> Verdict:
    score, alarm, causes = verdict
    if not isinstance(alarm, (bool, np.bool_)):
        raise OutputError(f"alarm: {_brief(alarm)} is not allowed; allowed: True, False")
    if not isinstance(causes, (tuple, list)):
        raise OutputError(
            f"causes: {_brief(causes)} is not allowed; allowed: a tuple of cause ids, the likeliest first"
        )
    for cause in causes:
        if not isinstance(cause, str):
            raise OutputError(f"causes: {_brief(cause)} is not allowed; allowed: cause ids as strings")
        if known is not None and cause != UNKNOWN and cause not in known:
            raise OutputError(str(unknown("causes", cause, [*sorted(known), UNKNOWN])))
    if len(set(causes)) != len(causes):
        raise OutputError(f"causes: {_brief(tuple(causes))} names a cause twice; allowed: each cause once")
    return Verdict(_finite(score), bool(alarm), tuple(causes))


def _finite(score: object) -> float:
    if type(score) is float and -LARGEST < score < LARGEST:  # as nearly all are
        return score
    with suppress(OverflowError):  # of an int beyond all floats
        if isinstance(score, Real) and not math.isnan(score):
            return max(-LARGEST, min(LARGEST, float(score)))
    raise OutputError(f"score: {_brief(score)} is not allowed; allowed: a number")


def _brief(value: object, limit: int = 60) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
