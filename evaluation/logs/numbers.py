"""How a number is written in a log: NaN and infinity by any name, missing values, a decimal comma.

nothing logged   an empty cell, NA, N/A, #N/A, <NA>, null, none, a dash
NaN              nan in any letters, with a sign or a payload, and 1.#QNAN or 1.#IND of older C libraries
infinity         inf, infinity, 1.#INF
decimal comma    only where the cells are parted by something else than commas, and then in the whole
                 file: 2,5 in one line and 2.5 in another is refused, and so is 1.234,5
anything else    is refused with its place: 2_000, 12 %, 0x1p3, True
"""

import math
import re
from typing import Any

from trainwreck.evaluation.errors import InputError

_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "null", "none", "-", "--"})
_NAN = re.compile(r"[+-]?(nan(\([^)]*\))?|1\.#(qnan|snan|ind)\d*)", re.IGNORECASE)
_INFINITY = re.compile(r"(?P<sign>[+-]?)(inf|infinity|1\.#inf\d*)", re.IGNORECASE)
_POINT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?([0-9]+,[0-9]*|,[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


class Numbers:
    """The numbers of one file. comma: whether a comma in one can be its decimal point.

    >>> numbers = Numbers(comma=True)
    >>> numbers.value("2,5", "a.csv, line 2"), numbers.value("-INF", "a.csv, line 3"), numbers.value(" ", "")
    (2.5, -inf, None)
    """

    def __init__(self, *, comma: bool = False) -> None:
        self.comma = comma
        self.mark = ""  # the decimal mark that this file uses, once one was seen
        self.commas = 0  # numbers that were written with one

    def value(self, raw: Any, place: str) -> float | None:
        """The number, None where nothing was logged; InputError that names `place` otherwise."""
        if raw is None:
            return None
        if isinstance(raw, (bool, int, float)):
            return _float(raw)
        text = str(raw).strip()
        if text.lower() in _MISSING:
            return None
        if _NAN.fullmatch(text):
            return math.nan
        infinity = _INFINITY.fullmatch(text)
        if infinity:
            return -math.inf if infinity["sign"] == "-" else math.inf
        if _POINT.fullmatch(text):
            if "." in text:
                self._marked(".", text, place)
            return float(text)
        if self.comma and _COMMA.fullmatch(text):
            self._marked(",", text, place)
            self.commas += 1
            return float(text.replace(",", "."))
        hint = "; a decimal comma is known in a CSV with another separator only" if _COMMA.fullmatch(text) else ""
        raise InputError(f"{place}: {text[:40]!r} is not a number{hint}")

    def step(self, raw: Any, place: str) -> int | None:
        """A whole number, as 120, 120.0 or 1.2e2; None where nothing was logged."""
        if isinstance(raw, str) and "," in raw:  # a comma may part thousands here: don't guess
            raise InputError(f"{place}: step {raw.strip()[:40]!r} is not a whole number")
        if isinstance(raw, int) and not isinstance(raw, bool):
            return max(-(2**63), min(raw, 2**63))  # beyond what any step can be; longer ones can't be printed
        value = None if raw is None else Numbers().value(raw, place)
        if value is None:
            return None
        if isinstance(raw, bool) or not value.is_integer():
            raise InputError(f"{place}: step {str(raw).strip()[:40]!r} is not a whole number")
        return int(value)

    def _marked(self, mark: str, text: str, place: str) -> None:
        if self.mark and mark != self.mark:
            raise InputError(f"{place}: {text!r} has a decimal {_WORD[mark]}, lines before it a {_WORD[self.mark]}")
        self.mark = mark


_WORD = {",": "comma", ".": "point"}


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number that no float holds
        return math.inf if value > 0 else -math.inf
