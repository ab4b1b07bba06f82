"""A made-up scenario on show, and runs of it in blocks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.pages.live_page import Mark, Show

STEPS = 60


def _show(**changed: Any) -> Show:
    facts: dict[str, Any] = {
        "scenario": "evil",
        "title": "evil, seed 3",
        "lead": "A <b>line</b>.",
        "tags": ["data", "seed 3"],
        "sections": {
            "Failure": "It `fails` </script><script>evil = 1</script>.",
            "Mechanism": "By <img src=x onerror='evil = 1'>.",
            "Signature": "A jump.",
            "Cure": "Mend it.",
        },
        "roles": {"faulty": "faulty", "twin": "twin", "cured": "cured"},
        "telling": "layer_grad_norm",
        "marks": [Mark(20, "s", "onset"), Mark(30, "cure", "cure")],
        "steps": STEPS,
        "layers": 2,
        "floor": 1.25,
    }
    return Show(**(facts | changed))


def _cut(trace: Trace, first: int, stop: int) -> Trace:
    stop = min(stop, len(trace))
    signals = {name: trace[name][first:stop] for name in trace.signals}
    return Trace(trace.run_id, signals, trace.evaluated[first:stop], np.arange(first, stop))


@pytest.fixture(scope="session")
def make_show() -> Callable[..., Show]:
    return _show


@pytest.fixture(scope="session")
def cut() -> Callable[[Trace, int, int], Trace]:
    """Some steps of a trace, as training tells of them."""
    return _cut


@pytest.fixture
def traces(make_trace: Callable[..., Trace]) -> dict[str, Trace]:
    """The faulty run ends early, at a NaN."""
    loss = np.linspace(4.0, 2.0, 40)
    loss[35], loss[36:] = np.inf, np.nan
    return {
        "faulty": make_trace("f", seed=1, steps=40, loss=loss),
        "twin": make_trace("t", seed=1, steps=STEPS),
        "cured": make_trace("c", seed=2, steps=STEPS),
    }


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """What training tells at its end."""
    runs = [
        {"role": "faulty", "run_id": "f", "steps": 40, "final_loss": None, "final_gap": None, "finite": False},
        {"role": "twin", "run_id": "t", "steps": 60, "final_loss": 2.0, "final_gap": None, "finite": True},
        {"role": "cured", "run_id": "c", "steps": 60, "final_loss": 2.25, "final_gap": 0.25, "finite": True},
    ]
    return {"signature": True, "signatures": {"evil": True}, "picture": "evil.png", "runs": runs}
