"""Rows out of a trace, verdicts into alarms, and detectors that break."""

import math
import sys
import time
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context, Detector, Row, Verdict
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.replay import replay, rising_edges, rows


class Scripted(Detector):
    """Alarms at the given steps; the score is the step."""

    script: tuple[int, ...] = ()

    def update(self, row: Row) -> Verdict:
        return Verdict(float(row["step"]), row["step"] in self.script, ("high_lr",) if row["step"] == 30 else ())


def scripted(*steps: int) -> type[Scripted]:
    return type("Scripted", (Scripted,), {"script": steps})


def test_rows_are_the_trace(make_trace: Any) -> None:
    trace = make_trace("r", steps=70)
    found = list(rows(trace))
    assert [row["step"] for row in found] == list(range(70))
    assert set(found[0]) == {"step", *(signal.name for signal in SIGNALS)}
    for row in (found[0], found[33], found[69]):
        assert row["loss"] == float(trace["loss"][row["step"]])
        assert row["layer_grad_norm"] == trace["layer_grad_norm"][row["step"]].tolist()
    assert [row["step"] for row in found if row["validation_loss"] is not None] == [19, 39, 59]


def test_a_signal_that_was_never_logged_is_none(make_trace: Any) -> None:
    trace = make_trace("r", steps=3)
    del trace.signals["log_z"], trace.signals["validation_loss"]
    trace.evaluated[:] = True
    assert [(row["log_z"], row["validation_loss"]) for row in rows(trace)] == [(None, None)] * 3


def test_no_detector_reaches_the_trace_or_another_detector(make_trace: Any) -> None:
    class Vandal(Detector):
        def update(self, row: Row) -> bool:
            row["layer_grad_norm"].clear()  # type: ignore[index]
            row["loss"] = math.nan  # type: ignore[index]
            return False

    trace = make_trace("r")
    before = [repr(row) for row in rows(trace)]
    assert replay(Vandal, trace).status == "ok"
    assert [repr(row) for row in rows(trace)] == before


def test_rows_come_fast(make_trace: Any) -> None:
    trace = make_trace("r", steps=4000)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        assert sum(1 for _ in rows(trace)) == 4000
        best = min(best, time.perf_counter() - start)
    assert 4000 / best > 40_000  # about 250,000 on a quiet machine; this one may be shared


def test_alarms_by_hand(make_trace: Any) -> None:
    alarms = replay(scripted(30, 31, 32, 45, 60), make_trace("r", steps=80))
    assert alarms.status == "ok"
    assert alarms.first_alarm == 30
    assert alarms.causes == ("high_lr",)
    assert alarms.edges.tolist() == [30, 60]  # 45 is within 20 steps of 30
    assert alarms.scores.tolist() == [float(step) for step in range(80)]
    assert alarms.alarm.sum() == 5
    assert alarms.update_us > 0.0


def test_the_step_of_an_alarm_is_that_of_the_row(make_trace: Any) -> None:
    alarms = replay(scripted(25, 30, 39), make_trace("r"), "standard")
    assert (alarms.first_alarm, alarms.steps.tolist()) == (30, list(range(0, 120, 10)))
    assert replay(scripted(25, 30, 39), make_trace("r"), "filtered").first_alarm == 39


@pytest.mark.parametrize(
    ("alarm", "edges"),
    [
        ([], []),
        ([0, 0, 0, 0], []),
        ([1, 1, 1, 1], [0]),
        ([0, 1, 0, 1], [1]),
        ([1, 0, 0, 1], [0, 3]),
        ([1, 0, 1, 1, 1, 0, 1], [0, 6]),
    ],
)
def test_rising_edges(alarm: list[int], edges: list[int]) -> None:
    assert rising_edges(np.arange(len(alarm)), np.array(alarm, bool), refractory=3).tolist() == edges


def test_a_crash_is_this_runs_result(make_trace: Any) -> None:
    class Fragile(Detector):
        def update(self, row: Row) -> bool:
            if row["step"] == 7:
                raise RuntimeError("two\nlines")
            return bool(row["step"] == 3)

    alarms = replay(Fragile, make_trace("r"))
    assert alarms.status == "crashed: RuntimeError: two lines"
    assert alarms.crashed
    assert (len(alarms.scores), alarms.first_alarm, alarms.edges.tolist()) == (7, 3, [3])


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("yes", "garbage: update returned 'yes'"),
        (math.nan, "garbage: score: nan"),
        (
            Verdict(0.0, True, ("hi_lr",)),
            "garbage: causes: 'hi_lr' is not allowed; did you mean 'high_lr'?",
        ),
    ],
)
def test_a_wrong_output_is_garbage(make_trace: Any, output: object, status: str) -> None:
    class Wrong(Detector):
        def update(self, row: Row) -> Any:
            return output

    alarms = replay(Wrong, make_trace("r"))
    assert alarms.status.startswith(status)
    assert alarms.first_alarm is None
    assert len(alarms.scores) == 0


def test_sys_exit_is_a_crash_and_an_interrupt_is_not(make_trace: Any) -> None:
    class Quits(Detector):
        def update(self, row: Row) -> bool:
            sys.exit(3)

    class Interrupted(Detector):
        def update(self, row: Row) -> bool:
            raise KeyboardInterrupt

    assert replay(Quits, make_trace("r")).status == "crashed: SystemExit: 3"
    with pytest.raises(KeyboardInterrupt):
        replay(Interrupted, make_trace("r"))


def test_a_detector_that_cannot_be_made_or_reset(make_trace: Any) -> None:
    class NeedsMore(Detector):
        def __init__(self, limit: float) -> None:
            self.limit = limit

    class NoReset(Detector):
        def reset(self, context: Context | None) -> None:
            raise OSError("no weights")

    assert replay(NeedsMore, make_trace("r")).status.startswith("crashed: TypeError")
    assert replay(NoReset, make_trace("r")).status == "crashed: OSError: no weights"


class Counts(Detector):
    """Forgets to reset: scores how many rows it has ever seen."""

    def __init__(self) -> None:
        self.count = 0

    def update(self, row: Row) -> float:
        self.count += 1
        return float(self.count)


def test_no_state_passes_from_run_to_run(make_trace: Any) -> None:
    for detector in (Counts, Counts()):
        first, second = replay(detector, make_trace("a")), replay(detector, make_trace("b"))
        assert first.scores.tolist() == second.scores.tolist()
        assert first.scores[0] == 1.0


def test_the_context_is_a_copy(make_trace: Any) -> None:
    class Reads(Detector):
        def reset(self, context: Context | None) -> None:
            self.lr = None if context is None else context.pop("lr")

        def update(self, row: Row) -> float:
            return -1.0 if self.lr is None else self.lr

    context = {"lr": 0.5}
    assert replay(Reads, make_trace("r"), "full", context).scores[0] == 0.5
    assert context == {"lr": 0.5}
    assert replay(Reads, make_trace("r")).scores[0] == -1.0


def test_state_is_measured(make_trace: Any) -> None:
    class Hoards(Detector):
        def __init__(self) -> None:
            self.array, self.past = np.zeros(1000), [[0.0] * 10]

        def update(self, row: Row) -> None:
            return None

    assert 8000 < replay(Hoards, make_trace("r")).state_bytes < 9000


def test_default_threshold_is_the_alarm_of_a_bare_score(make_trace: Any) -> None:
    class Score(Detector):
        default_threshold = 10.0

        def update(self, row: Row) -> float:
            return float(row["step"])

    assert replay(Score, make_trace("r")).first_alarm == 11


def test_a_wrong_profile_is_the_callers_mistake(make_trace: Any) -> None:
    with pytest.raises(InputError, match="did you mean 'minimal'"):
        replay(Counts, make_trace("r"), "minimall")


def test_to_dict(make_trace: Any) -> None:
    alarms = replay(scripted(30), make_trace("r", steps=40))
    assert alarms.to_dict()["edges"] == [30]
    assert "scores" not in alarms.to_dict()
    assert alarms.to_dict(scores=True)["scores"][-1] == 39.0


def test_an_empty_trace_has_no_rows() -> None:
    alarms = replay(Counts, Trace("r", {}, np.zeros(0, bool)))
    assert (alarms.status, alarms.first_alarm, len(alarms.scores)) == ("ok", None, 0)


def test_rows_of_a_log_are_its_steps_and_what_it_has(make_trace: Any) -> None:
    made = make_trace("r", steps=40)
    present = np.arange(40) % 4 == 0
    signals = {name: made[name] for name in ("loss", "layer_grad_norm", "validation_loss")}
    nowhere = np.zeros(40, bool)
    trace = Trace("r", signals, made.evaluated, np.arange(40) * 10, {"loss": present, "lr": nowhere})
    found = list(rows(trace))
    assert [row["step"] for row in found] == list(range(0, 400, 10))
    assert [row["loss"] is None for row in found] == (~present).tolist()
    assert {row["lr"] for row in found} == {row["fresh_loss"] for row in found} == {None}
    assert [row["step"] for row in found if row["validation_loss"] is not None] == [190, 390]
    assert replay(scripted(190), trace).first_alarm == 190
