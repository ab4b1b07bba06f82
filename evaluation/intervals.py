"""Exact confidence intervals, and the one way in which a number and its interval are written.

The two exact intervals are the closed forms on scipy.special. `score` needs them for every scorecard, and
statsmodels, which gives the same numbers, would add half of its start again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainwreck.evaluation.constants import CONFIDENCE


def poisson_interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact interval of a Poisson mean (Garwood 1936)."""
    from scipy.special import gammaincinv

    tail = (1.0 - confidence) / 2.0
    low = float(gammaincinv(count, tail)) if count else 0.0
    return low, float(gammaincinv(count + 1, 1.0 - tail))


def binomial_interval(count: float, exposure: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact interval of a binomial share (Clopper and Pearson 1934). count may be a fraction: a tie is half a win."""
    from scipy.special import betaincinv

    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(count, exposure - count + 1, tail)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, exposure - count, 1.0 - tail)) if count < exposure else 1.0
    return low, high


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """First less second, with an interval: by variance recovery from the intervals of both (Zou and Donner 2008).

    Each is a value, low and high of an estimate, and the two are independent of each other.

    >>> [round(x, 3) for x in difference((0.9, 0.8, 0.95), (0.5, 0.3, 0.7))]
    [0.4, 0.176, 0.606]
    """
    (a, a_low, a_high), (b, b_low, b_high) = first[:3], second[:3]
    return a - b, a - b - math.hypot(a - a_low, b_high - b), a - b + math.hypot(a_high - a, b - b_low)


def number_text(value: float | None, form: str = ".2f") -> str:
    """A number, or a dash for None and NaN."""
    return "-" if value is None or value != value else format(value, form)


def interval_text(value: float | None, low: float | None, high: float | None, form: str = ".2f") -> str:
    """A number with its interval, or a dash where there is no number.

    >>> interval_text(0.41, 0.3, 0.52), interval_text(0.05, 0.0, 0.125, ".0%"), interval_text(None, None, None)
    ('0.41 [0.30, 0.52]', '5% [0%, 12%]', '-')
    >>> interval_text(0.5, float("nan"), float("nan"))
    '0.50 [-, -]'
    """
    if value is None or value != value:
        return "-"
    return f"{value:{form}} [{number_text(low, form)}, {number_text(high, form)}]"


def row_interval_text(row: Mapping[str, Any], key: str, form: str = ".2f") -> str:
    """`interval_text` of a table's row with KEY, KEY_low and KEY_high."""
    return interval_text(row[key], row[f"{key}_low"], row[f"{key}_high"], form)
