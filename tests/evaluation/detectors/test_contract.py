"""What every built-in detector must do: one short file over all of them."""

import doctest
import importlib
import math
import pkgutil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.evaluation import detectors
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import normalise
from trainwreck.evaluation.detectors.registry import builtin_causes, known_detectors
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.evaluation.replay.replay import replay

KNOWN = known_detectors()
NEEDY = {detector.__module__ for detector in KNOWN.values() if detector.requires}


def marked(name: str, needy: bool) -> Any:
    return pytest.param(name, marks=pytest.mark.monitors if needy else ())


NAMES = [marked(name, bool(detector.requires)) for name, detector in KNOWN.items()]
MODULES = [
    marked(module.name, module.name in NEEDY)
    for module in pkgutil.walk_packages(detectors.__path__, detectors.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_each_class_shows_an_example(name: str) -> None:
    assert ">>>" in (KNOWN[name].__doc__ or "")


def cut(trace: Trace, stop: int) -> Trace:
    return Trace("cut", {name: values[:stop] for name, values in trace.signals.items()}, trace.evaluated[:stop])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(
    profile=st.sampled_from(sorted(PROFILES)),
    stop=st.integers(1, 169),
    seed=st.integers(0, 3),
    future=st.sampled_from([0.0, 50.0, math.nan, math.inf]),
)
def test_outputs_up_to_a_step_do_not_depend_on_what_follows(
    name: str, profile: str, stop: int, seed: int, future: float, make_trace: Any
) -> None:
    detector = KNOWN[name]
    trace, other = make_trace("r", seed=seed, steps=170), make_trace("r", seed=seed, steps=170)
    for values in other.signals.values():
        values[stop:] = future
    whole, changed, truncated = (replay(detector, one, profile) for one in (trace, other, cut(trace, stop)))
    seen = len(truncated.steps)
    for one in (whole, changed):
        assert one.status == "ok"
        assert one.steps[:seen].tolist() == truncated.steps.tolist()
        assert one.scores[:seen].tolist() == truncated.scores.tolist()
        assert one.alarm[:seen].tolist() == truncated.alarm.tolist()


EXTREMES = st.sampled_from([0.0, -1.0, 1.0, 1e-30, 3e38, -3e38, math.nan, math.inf, -math.inf])
VALUES = {
    signal.name: st.none() | (EXTREMES if signal.axis.value == "scalar" else st.lists(EXTREMES, min_size=4, max_size=4))
    for signal in SIGNALS
}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(stream=st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=3), repeats=st.integers(1, 60))
def test_survives_any_row_and_says_nothing_but_verdicts(name: str, stream: list[Any], repeats: int) -> None:
    detector = KNOWN[name]()
    detector.reset(None)
    for step in range(len(stream) * repeats):
        row = stream[step % len(stream)] | {"step": step}
        normalise(detector.update(row), threshold=detector.default_threshold, known=builtin_causes())


@pytest.mark.parametrize("name", NAMES)
def test_is_silent_where_nothing_is_logged_unless_it_goes_by_the_clock(name: str) -> None:
    nothing = Trace("r", {}, np.zeros(300, bool))
    found = replay(KNOWN[name], nothing)
    assert found.status == "ok"
    if name not in ("always", "clock", "periodic", "random"):
        assert found.first_alarm is None


@pytest.mark.parametrize("name", NAMES)
def test_reset_starts_afresh(name: str, make_trace: Any) -> None:
    detector = KNOWN[name]()
    passes = []
    for _ in range(2):
        detector.reset({})
        passes.append(
            [normalise(detector.update(row), threshold=None, known=None) for row in _rows(make_trace("r", seed=5))]
        )
    assert passes[0] == passes[1]


def _rows(trace: Trace) -> Any:
    from trainwreck.evaluation.replay.replay import rows

    return rows(trace)
