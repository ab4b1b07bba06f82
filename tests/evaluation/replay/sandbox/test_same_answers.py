"""A detector returns the same verdicts in a process of its own as in this one, and gets bitwise the same rows."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.replay.profiles import PROFILES, TRAINER
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.opening import isolated_builtin, open_detector
from trainwreck.evaluation.replay.trainer import LOGGED_BY_TRAINER

FILE = Path(__file__).with_name("misbehaving.py")
BUILTIN = ("any_zscore", "olmo_stability", "playbook", "random")


@pytest.fixture(scope="module")
def pairs() -> Iterator[dict[str, tuple[Any, Isolated]]]:
    """Each detector in this process, and in one of its own."""
    found: dict[str, tuple[Any, Isolated]] = {}
    for name in ("Echo", "Looks"):
        apart = open_detector(f"{FILE}:{name}")
        assert isinstance(apart, Isolated)
        found[name] = MISBEHAVING[name], apart
    found |= {name: (load_detector(name), isolated_builtin(name, {})) for name in BUILTIN}
    yield found
    for _, apart in found.values():
        apart.close()


def misbehaving() -> dict[str, Any]:
    """The classes of the file, here; its neighbour is not on the path of this process."""
    code = FILE.read_text(encoding="utf-8").replace("from neighbour import LIMIT", "LIMIT = 3")
    names: dict[str, Any] = {"__name__": "misbehaving", "__file__": str(FILE)}
    exec(compile(code, FILE, "exec"), names)
    return names


MISBEHAVING = misbehaving()

ODD = st.sampled_from([0.0, -0.0, 1e-45, 3e38, -1.0, math.nan, math.inf, -math.inf])


def same(one: Any, other: Any) -> None:
    assert (one.status, other.status) == ("ok", "ok")
    assert one.steps.tolist() == other.steps.tolist()
    np.testing.assert_array_equal(one.scores, other.scores)
    assert one.alarm.tolist() == other.alarm.tolist()
    assert (one.first_alarm, one.causes, one.state_bytes) == (other.first_alarm, other.causes, other.state_bytes)


@settings(max_examples=12)
@given(
    data=st.data(), profile=st.sampled_from(sorted((*PROFILES, TRAINER))), k=st.integers(1, 7), steps=st.integers(0, 90)
)
def test_in_this_process_and_in_its_own(
    pairs: Any, data: Any, profile: str, k: int, steps: int, make_trace: Any
) -> None:
    trace = make_trace("r", steps=steps, seed=data.draw(st.integers(0, 3)))
    trace.objective = data.draw(st.sampled_from(["", *LOGGED_BY_TRAINER]))
    for name in ("loss", "grad_norm", "head_entropy", "fresh_loss"):
        for at in data.draw(st.lists(st.integers(0, max(0, steps - 1)), max_size=3)) if steps else ():
            trace[name][at] = data.draw(ODD)
    for here, apart in pairs.values():
        same(replay(here, trace, profile, k=k), replay(apart, trace, profile, k=k))


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_rows_of_an_imported_log(pairs: Any, profile: str, make_trace: Any) -> None:
    made = make_trace("r", steps=50)
    present = np.arange(50) % 3 != 0
    signals = {name: made[name] for name in ("loss", "layer_grad_norm", "validation_loss")}
    logged = {"loss": present, "layer_grad_norm": ~present, "lr": np.zeros(50, bool)}
    trace = Trace("r", signals, made.evaluated, np.arange(50) * 10 + 2**40, logged)
    for name in ("Echo", "Looks"):
        same(*(replay(detector, trace, profile, k=1) for detector in pairs[name]))


def test_a_run_longer_than_a_block(pairs: Any, make_trace: Any) -> None:
    trace = make_trace("r", steps=2100)
    same(*(replay(detector, trace) for detector in pairs["Echo"]))
