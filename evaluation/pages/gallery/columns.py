"""Telemetry of a run as the columns that the page packs: every signal that says something."""

import numpy as np

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, EVALUATED_LISTS, EVALUATIONS, SIGNALS, Axis, Role
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.pages.gallery.pack import COARSE, FINE, Column, thinned


def columns(trace: Trace, every: int) -> list[Column]:
    """Scalars as they are, one value a step; lists at every so many steps and fewer bits, since they become colours.

    Left out: what a run of its kind does not have (lists and evaluations that are NaN throughout, ranks where there is
    one), and lists of evaluated steps, of which thinning would leave few. A hash becomes 1 where it differs from the
    first rank's, else 0: its own number means nothing.
    """
    found = []
    for signal in SIGNALS:
        values = np.asarray(trace[signal.name], dtype=np.float32)
        gap = ~trace.evaluated if signal.name in EVALUATIONS else np.zeros(len(values), bool)
        nothing = np.isnan(values).all() and (
            signal.axis is not Axis.SCALAR or signal.name in (*EVALUATIONS, *ADDED_SIGNALS)
        )
        if nothing or signal.name in EVALUATED_LISTS or (signal.axis is Axis.RANKS and values.shape[1] == 1):
            continue
        if signal.role is Role.HASH:
            values = (values != values[:, :1]).astype(np.float32)
        if signal.axis is Axis.SCALAR:
            found.append(Column(signal.name, values[None], gap | _absent(trace, signal.name), FINE))
        else:
            found.append(thinned(Column(signal.name, values.T, gap, COARSE), every, signal.positive))
    return found


def _absent(trace: Trace, name: str) -> np.ndarray:
    """Where a run without a second held-out set has no loss on it, though it was evaluated; where none has answers."""
    if name not in ("fresh_loss", *ADDED_SIGNALS):
        return np.zeros(len(trace), bool)
    return np.asarray(np.isnan(trace[name]))
