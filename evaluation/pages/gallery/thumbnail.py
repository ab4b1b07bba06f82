"""A picture the size of a stamp of the signal that tells: the run and its twin, as paths of an SVG."""

import math

import numpy as np

from trainwreck.evaluation.dataset.schema import BY_NAME, EVALUATIONS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.pages.figures import reduced
from trainwreck.evaluation.pages.gallery.pack import Column, thinned

WIDTH, HEIGHT = 120, 44
POINTS = 60
WILD = 20.0  # a signal that ranges over more is drawn by its logarithm


def thumbnail(traces: dict[str, Trace], telling: str) -> dict[str, str]:
    """Role to the `d` of a path in a box of WIDTH by HEIGHT; empty for a run without a number."""
    curves = {role: _curve(trace, telling) for role, trace in traces.items()}
    known = np.concatenate([y[np.isfinite(y)] for _, y in curves.values()])
    if not len(known):
        return dict.fromkeys(curves, "")
    low, high = float(known.min()), float(known.max())
    log = low > 0 and high > WILD * low
    last = max(int(x[-1]) for x, _ in curves.values() if len(x)) or 1
    return {role: _path(x, y, low, high, last, log) for role, (x, y) in curves.items()}


def _curve(trace: Trace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values, at most about POINTS of them, extremes among them."""
    steps, values = trace.steps, reduced(trace, name)
    if name in EVALUATIONS:
        steps, values = steps[trace.evaluated], values[trace.evaluated]
    every = max(1, math.ceil(len(steps) / POINTS))
    column = Column(name, values[None].astype(np.float32), np.zeros(len(values), bool))
    return steps[::every], thinned(column, every, BY_NAME[name].positive).values[0].astype(np.float64)


def _path(x: np.ndarray, y: np.ndarray, low: float, high: float, last: int, log: bool) -> str:
    def up(value: float) -> float:
        if high <= low:
            return 0.5
        return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)

    path, drawn = "", False
    for step, value in zip(x.tolist(), y.tolist(), strict=True):
        if not math.isfinite(value):
            drawn = False
            continue
        path += f"{'L' if drawn else 'M'}{round(step / last * WIDTH)} {round(HEIGHT - 3 - up(value) * (HEIGHT - 6))}"
        drawn = True
    return path
