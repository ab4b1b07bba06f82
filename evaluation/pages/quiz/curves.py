"""What a player sees of a run: the rows of an observation profile, one curve a signal."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.pages.figures import caption, reduced, unit
from trainwreck.evaluation.pages.numbers import written
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import rows

FIRST = ("loss", "grad_norm", "validation_loss", "activation_max")  # what is drawn until a player asks for others


def curves(trace: Trace, profile: str) -> dict[str, Any]:
    """steps: of the rows that the profile shows. signals: name to a value a row, of those that were ever logged.

    A value is a number, None where nothing was logged, or "nan", "inf", "-inf". Of signals with a number a layer, head
    or position one curve is left, as `figures.reduced` has it.
    """
    seen = list(observe(rows(trace), profile))
    shown = {}
    for signal in SIGNALS:
        values = [row[signal.name] for row in seen]
        if any(value is not None for value in values):
            curve = _reduced(signal.name, values) if signal.axis is not Axis.SCALAR else values
            if signal.axis is Axis.SCALAR or any(isinstance(v, float) and math.isfinite(v) for v in curve):
                shown[signal.name] = [written(value) for value in curve]
    return {"steps": [row["step"] for row in seen], "signals": shown}


def described(names: Sequence[str]) -> list[dict[str, Any]]:
    """What a page says of each signal: name, title, unit, meaning, and whether a log axis fits; first ones first."""
    found = []
    for signal in sorted(SIGNALS, key=lambda signal: FIRST.index(signal.name) if signal.name in FIRST else len(FIRST)):
        if signal.name in names:
            found.append(
                {
                    "name": signal.name,
                    "title": caption(signal.name),
                    "unit": unit(signal.name),
                    "meaning": signal.meaning,
                    "log": signal.positive,
                }
            )
    return found


def _reduced(name: str, values: list[list[float] | None]) -> list[float | None]:
    """One number a row; None where the row has no list."""
    known = [i for i, value in enumerate(values) if value is not None]
    lists = np.array([values[i] for i in known], dtype=np.float32)
    curve: list[float | None] = [None] * len(values)
    for i, value in zip(known, reduced(Trace("", {name: lists}, np.ones(len(known), bool)), name), strict=True):
        curve[i] = float(value)
    return curve
