"""Every signal has as many numbers a step as its axis says, for models of any size."""

import math

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import BUCKETS, SIGNALS, Axis
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.training.loop import train
from trainwreck.scenarios.training.telemetry import age_buckets


@pytest.mark.parametrize(("layers", "heads", "context"), [(1, 1, 16), (3, 4, 48), (2, 1, 32), (1, 2, 64)])
def test_axes(layers, heads, context, tiny, make_job):
    setup = replaced(
        tiny, model__layers=layers, model__heads=heads, model__context=context, steps=3, evaluation__every=2
    )
    trace = train([make_job(0, setup)])[0].trace
    count = {
        Axis.LAYERS: layers + 2, Axis.BLOCKS: layers, Axis.HEADS: layers * heads, Axis.POSITIONS: BUCKETS,
        Axis.AGES: 1 + math.ceil(math.log2(context)), Axis.RANKS: 1, Axis.GROUPS: 4,
    }  # fmt: skip
    assert set(trace.signals) == {signal.name for signal in SIGNALS}
    for signal in SIGNALS:
        shape = (3,) if signal.axis is Axis.SCALAR else (3, count[signal.axis])
        assert trace[signal.name].shape == shape, signal.name
        assert trace[signal.name].dtype == np.float32, signal.name
    again = Trace.from_table(trace.to_table())
    assert all(np.array_equal(again[name], values, equal_nan=True) for name, values in trace.signals.items())


@pytest.mark.parametrize(("context", "count"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (64, 7), (65, 8)])
def test_age_buckets_hold_the_oldest_token(context, count):
    """1, 2, 3-4, 5-8, 9-16, 17-32, 33-64, 65-128."""
    assert age_buckets(context) == count
