"""From the points of a log to a trace, by rules that are counted and kept with the data.

order       points are put in the order of their steps; `reordered` came after a later step
repeats     of several values of a signal at one step the one written last stays, as a run that was
            resumed went on from it; `repeated` were dropped, of which `conflicting` had another value
gaps        nothing is filled in: the rows are the steps that the log has, and a signal is null where
            it has none; rows without any value at the end are rows too. `interval` is the commonest
            distance between two points, `gaps` are the distances that are larger
precision   telemetry is float32; `overflowed` were finite, and are infinite there
"""

from collections import Counter
from typing import Any

import numpy as np

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, BY_NAME, EVALUATIONS, SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.logs.limits import Memory
from trainwreck.evaluation.logs.log import Log, Points
from trainwreck.evaluation.logs.names import Target

Account = dict[str, dict[str, Any]]
"""Signal to what was done with its points: points, repeated, conflicting, reordered, overflowed, interval, gaps."""


COPIES = 4  # of a run's numbers while it is made and written


def to_trace(log: Log, run_id: str, memory: Memory | None = None) -> tuple[Trace, Account]:
    """The run, and for each signal what was done with its points.

    memory: what is counted for all runs that are kept; a new one by default. InputError where a run takes too much.
    """
    settled = {target: _settled(points) for target, points in log.points.items() if points.steps}
    steps = np.unique(np.concatenate([np.array(log.bare, np.int64), *(found[0] for found in settled.values())]))
    widths = {target.signal: 0 for target in settled}
    for target in settled:
        widths[target.signal] = max(widths[target.signal], (target.entry or 0) + 1)
    memory = memory or Memory()
    size = 4 * len(steps) * sum(widths.values())
    with memory.for_a_while():
        memory.take(COPIES * size, log.place)
    memory.take(size, log.place)
    signals: dict[str, np.ndarray] = {}
    logged: dict[str, np.ndarray] = {}
    for signal in SIGNALS:
        parts = {target: found for target, found in settled.items() if target.signal == signal.name}
        known = np.zeros(len(steps), bool)
        if parts or (signal.name in EVALUATIONS and signal.name not in ADDED_SIGNALS):
            width = max((target.entry or 0 for target in parts), default=0) + 1
            values = np.full((len(steps), width), np.nan, np.float32)
            for target, (at, value, _) in parts.items():
                rows = np.searchsorted(steps, at)
                values[rows, target.entry or 0] = value
                known[rows] = True
            signals[signal.name] = values[:, 0] if signal.axis is Axis.SCALAR else values
        if not known.all():
            logged[signal.name] = known
    evaluated = logged.pop("validation_loss", np.ones(len(steps), bool))
    logged.pop("fresh_loss", None)  # NaN says it, as everywhere
    return Trace(run_id, signals, evaluated, steps, logged), _account(settled)


def _settled(points: Points) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Steps ascending and each once, values as float32, and what was done."""
    steps = np.array(points.steps, np.int64)
    exact = np.array(points.values, np.float64)
    with np.errstate(over="ignore"):
        values = exact.astype(np.float32)
    order = np.argsort(steps, kind="stable")
    kept = order[np.append(np.diff(steps[order]) > 0, True)]  # the last of each step
    stays = values[kept[np.searchsorted(steps[kept], steps)]]  # of each point's step
    distances = np.diff(steps[kept])
    interval = Counter(distances.tolist()).most_common(1)[0][0] if len(distances) else None
    facts = {
        "points": len(kept),
        "repeated": len(steps) - len(kept),
        "conflicting": int((~((values == stays) | (np.isnan(values) & np.isnan(stays)))).sum()),
        "reordered": int((steps < np.maximum.accumulate(steps)).sum()),
        "overflowed": int((np.isfinite(exact) & ~np.isfinite(values)).sum()),
        "interval": interval,
        "gaps": int((distances > interval).sum()) if interval else 0,
    }
    return steps[kept], values[kept], facts


def _account(settled: dict[Target, tuple[np.ndarray, np.ndarray, dict[str, Any]]]) -> Account:
    """By signal; of a list signal the sum over its entries, and the first entry's interval and gaps."""
    account: Account = {}
    for target, (_, _, facts) in settled.items():
        if target.signal not in account:
            account[target.signal] = dict(facts)
            continue
        for name in ("points", "repeated", "conflicting", "reordered", "overflowed"):
            account[target.signal][name] += facts[name]
    return {signal: account[signal] for signal in BY_NAME if signal in account}
