"""The rows that a detector sees of a run, as records for another process."""

from collections.abc import Iterator

import numpy as np

from trainwreck.evaluation.dataset.schema import Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import NAMES, logged_at, rows
from trainwreck.evaluation.replay.sandbox.record import Layout

BLOCK = 1024  # rows that are packed at a time


def layout_of(trace: Trace) -> Layout:
    """Every signal of the schema, with lists as long as they are in this run."""
    widths: dict[str, int | None] = {}
    for name, signal in NAMES.items():
        values = trace.signals.get(name)
        if signal.axis is Axis.SCALAR:
            widths[name] = None
        else:
            widths[name] = 0 if values is None else values.shape[1]
    return Layout(widths)


def records(trace: Trace, layout: Layout, profile: str, k: int) -> Iterator[tuple[int, bytes]]:
    """Step and record of every row that the profile shows; the same rows as `observe` gives, to the bit."""
    if profile != "full":
        for row in observe(rows(trace), profile, k=k):
            yield row["step"], layout.pack(row)
        return
    # Every row as it is: a column at a time, with no Python number in between.
    for start in range(0, len(trace), BLOCK):
        part = slice(start, min(start + BLOCK, len(trace)))
        packed = np.zeros(part.stop - start, layout.dtype)
        packed["step"] = trace.steps[part]
        for name, (index, first, width) in layout.names.items():
            values = trace.signals.get(name)
            if values is None:
                continue
            known = logged_at(trace, name)
            packed["logged"][:, index] = 1 if known is None else known[part]
            if width is None:
                packed["numbers"][:, first] = values[part]
            else:
                packed["numbers"][:, first : first + width] = values[part]
        data = packed.tobytes()
        for at, step in enumerate(packed["step"].tolist()):
            yield step, data[at * layout.size : (at + 1) * layout.size]
