"""Detectors that draw random numbers: the same one under several seeds, and the spread of its scores.

A detector draws if its class takes `seed`. What the seed changes is no sampling error of the data, so it is
given with the bootstrap's interval and is not part of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainwreck.evaluation.constants import HEADLINE_BUDGET


class Seeded(NamedTuple):
    """A detector as it is asked for, to be made with this seed."""

    detector: Any
    seed: int


class Spread(NamedTuple):
    """Of one score over seeds: mean, standard deviation (n - 1), least and largest; NaN where it is undefined."""

    mean: float
    sd: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The spread of one score over seeds.

    >>> spread([0.25, 0.75])
    Spread(mean=0.5, sd=0.3535533905932738, low=0.25, high=0.75)
    """
    array = np.asarray(values, dtype=np.float64)
    sd = float(array.std(ddof=1)) if len(array) > 1 else float("nan")
    return Spread(float(array.mean()), sd, float(array.min()), float(array.max()))


def in_words(seeds: Mapping[str, Sequence[float]]) -> str:
    """One line of a scorecard. seeds: scores by seed, as a scorecard has them."""
    parts = []
    for name, key in (
        (f"in-time recall at {HEADLINE_BUDGET:.0%}", f"recall_{HEADLINE_BUDGET}"),
        ("lead", "lead"),
        ("W*", "skill"),
    ):
        one = spread(seeds[key])
        parts.append(f"{name} {one.mean:.2f} (sd {one.sd:.2f}, {one.low:.2f} to {one.high:.2f})")
    return f"over {len(seeds['skill'])} seeds of the detector: {', '.join(parts)}"
