"""Logs made by hand, of which it is known what is wrong with them."""

from collections.abc import Callable

import numpy as np
import pytest

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.diagnosis.observed import Observed


def _trace(loss, steps=None, **signals) -> Trace:
    loss = np.asarray(loss, np.float32)
    steps = np.arange(len(loss)) if steps is None else np.asarray(steps)
    validation = signals.pop("validation_loss", None)
    evaluated = np.zeros(len(loss), bool)
    values = {"loss": loss, "validation_loss": np.full(len(loss), np.nan, np.float32)}
    if validation is not None:
        at = np.linspace(0, len(loss) - 1, len(validation)).astype(int)
        evaluated[at] = True
        values["validation_loss"][at] = validation
    values |= {name: np.asarray(one, np.float32) for name, one in signals.items()}
    return Trace("run", values, evaluated, steps)


def _falling(rows=400, seed=0, noise=0.03) -> np.ndarray:
    return 2.0 + 8.0 * np.exp(-np.arange(rows) / (rows / 8)) + noise * np.random.default_rng(seed).standard_normal(rows)


@pytest.fixture
def trace() -> Callable[..., Trace]:
    """Telemetry from curves: trace(loss, steps, grad_norm=...); the validation loss is spread over the run."""
    return _trace


@pytest.fixture
def observed() -> Callable[..., Observed]:
    """What a log shows of such curves."""
    return lambda *curves, **signals: Observed(_trace(*curves, **signals))


@pytest.fixture
def falling() -> Callable[..., np.ndarray]:
    """A loss that falls from 10 to 2, fast and then slowly, with noise: healthy."""
    return _falling
