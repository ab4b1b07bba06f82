"""Rows in, new alarms out: what a monitor makes of a live run."""

import doctest
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainwreck.evaluation.detectors.base import Detector, Verdict
from trainwreck.evaluation.detectors.registry import load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live import Alarm, Monitor, monitor
from trainwreck.evaluation.logs.readers import read
from trainwreck.evaluation.logs.rules import to_trace
from trainwreck.evaluation.replay.replay import replay, rising_edges


class Seen(Detector):
    """Keeps what it is shown, without the signals that were not logged."""

    rows: list[dict[str, Any]]

    def reset(self, context: Any) -> None:
        type(self).rows = []
        self.context = context

    def update(self, row: Any) -> None:
        self.rows.append({name: value for name, value in row.items() if value is not None})


@pytest.fixture
def messages() -> list[str]:
    return []


def test_the_examples_run() -> None:
    assert doctest.testmod(monitor).attempted > 0
    assert doctest.testmod(monitor).failed == 0


def test_names_units_and_what_is_no_signal(messages: list[str]) -> None:
    live = Monitor(Seen, mapping={"quality": "log_z"}, say=messages.append)
    live.update({"Train/Loss": 3.5, "epoch": 0.1, "lr": np.float64(0.1), "quality": 2, "note": "warm"}, 7)
    live.update({"global_step": 8, "train": {"loss": np.array([3.25])}, "layer_grad_norm": [1.0, 2.0]})
    live.update({"global_step": 9, "loss": True, "layer_grad_norm": np.array([4.0])})
    first, second, third = Seen.rows
    assert first == {"step": 7, "loss": 3.5, "lr": float(np.float32(0.1)), "log_z": 2.0}
    assert second == {"step": 8, "loss": 3.25, "layer_grad_norm": [1.0, 2.0]}
    assert third["loss"] == 1.0
    assert third["layer_grad_norm"][0] == 4.0
    assert math.isnan(third["layer_grad_norm"][1])
    assert messages == []


def test_a_tensor_of_one_element_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    live = Monitor(Seen)
    live.update({"loss": torch.tensor([2.5], dtype=torch.bfloat16), "layer_grad_norm": torch.ones(2)}, 1)
    assert Seen.rows == [{"step": 1, "loss": 2.5, "layer_grad_norm": [1.0, 1.0]}]


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=40))
@example([(1, True), (10, False), (10, True)])  # 20 steps apart: new again
@example([(1, True), (10, False), (9, True)])
def test_alarms_are_the_rising_edges_of_a_replay(moves: list[tuple[int, bool]]) -> None:
    class Scripted(Detector):
        def update(self, row: Any) -> bool:
            return bool(row["loss"])

    steps = np.cumsum([move for move, _ in moves]).astype(int)
    alarm = np.array([on for _, on in moves], bool)
    found: list[int] = []
    live = Monitor(Scripted, lambda one: found.append(one.step), say=lambda line: None)
    for step, on in zip(steps, alarm, strict=True):
        live.update({"loss": float(on)}, int(step))
    assert found == rising_edges(steps, alarm).tolist()


def test_a_live_run_is_alarmed_as_its_imported_log_is(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lines = ["step,loss,grad_norm,lr"]
    for i in range(300):
        spike = 30.0 if i in (120, 240) else 1.0
        loss = "NaN" if i > 280 else f"{(4 - i / 100) * (1 + 0.01 * random.normal()) * math.sqrt(spike):.6f}"
        lines.append(f"{10 * i},{loss},{'' if i % 7 == 0 else f'{random.gamma(50) / 50 * spike:.6f}'},0.001")
    (tmp_path / "run.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (log,) = read(tmp_path / "run.csv")
    trace, _ = to_trace(log, "r")
    names = ("zclip", "olmo_stability", "nonfinite_loss", "megatron_spiky", "any_zscore", "wandb_zscore", "playbook")
    live: dict[str, list[tuple[int, tuple[str, ...]]]] = {name: [] for name in names}
    one = Monitor(list(names), lambda a: live[a.detector].append((a.step, a.causes)), say=lambda line: None)
    header = lines[0].split(",")
    for line in lines[1:]:
        one.update(dict(zip(header, line.split(","), strict=True)))
    for name in names:
        replayed = replay(load_detector(name), trace)
        assert [step for step, _ in live[name]] == replayed.edges.tolist(), name
        if live[name]:
            assert live[name][0][1] == replayed.causes
    assert sum(map(bool, live.values())) >= 5  # most of them found something


def test_late_values(messages: list[str]) -> None:
    live = Monitor(Seen, say=messages.append)
    live.update({"loss": 3.0}, 10)
    live.update({"eval_loss": 2.5}, 10)  # after the row of its step
    live.update({"grad_norm": 1.0}, 10)
    live.update({"loss": 2.75}, 20)
    assert Seen.rows == [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.75, "validation_loss": 2.5}]
    assert live.counts == {"late": 1}
    assert messages == []


def test_a_signal_that_goes_back_is_a_resumed_run(messages: list[str]) -> None:
    live = Monitor(Seen, say=messages.append)
    for step in (10, 20, 30):
        live.update({"loss": 3.0}, step)
    live.update({"lr": 0.5}, 15)  # a signal that never was there: late, not back
    assert [row["step"] for row in Seen.rows] == [10, 20, 30]
    live.update({"loss": 3.1}, 20)
    assert Seen.rows == [{"step": 20, "loss": pytest.approx(3.1)}]
    assert messages == ["step 20 after step 30: the run was resumed; detectors are reset"]


def test_a_crash_takes_nothing_down(messages: list[str]) -> None:
    class Broken(Detector):
        name = "broken"

        def update(self, row: Any) -> Any:
            raise SystemExit("gone")

    class Garbled(Detector):
        def update(self, row: Any) -> Any:
            row["layer_grad_norm"].append(1.0)  # of its own copy
            return Verdict(math.nan)

    live = Monitor([Broken, Garbled, Seen, "nonfinite_loss"], say=messages.append)
    live.update({"loss": 3.0, "layer_grad_norm": [1.0]}, 1)
    (alarm,) = live.update({"loss": math.nan, "layer_grad_norm": [1.0]}, 2)
    assert alarm.detector == "nonfinite_loss"
    assert Seen.rows[0]["layer_grad_norm"] == [1.0]
    assert live.crashed == {
        "broken": "SystemExit: gone",
        "Garbled": "OutputError: score: nan is not allowed; allowed: a number",
    }
    assert len(messages) == 2


def test_signals_that_never_come_are_said_once(messages: list[str]) -> None:
    live = Monitor(["zclip", "olmo_stability", "nonfinite_loss"], say=messages.append)
    for step in range(60):
        live.update({"loss": 3.0}, step)
    live.close()
    assert messages == [
        "not logged in 50 rows: zclip lacks grad_norm (all that it reads); olmo_stability lacks grad_norm (of 2)"
    ]


def test_a_short_run_is_told_at_its_end(messages: list[str]) -> None:
    live = Monitor("zclip", say=messages.append)
    live.update({"loss": 3.0}, 1)
    assert messages == []
    live.close()
    assert messages == ["not logged in 1 rows: zclip lacks grad_norm (all that it reads)"]


def test_rows_without_a_known_name_are_said_once(messages: list[str]) -> None:
    live = Monitor("zclip", say=messages.append)
    assert live.update({"quality": 3.0}, 1) == live.update({"quality": 3.0}, 2) == []
    assert messages == ["no known signal among 'quality'; name yours with a mapping"]


@pytest.mark.parametrize(
    ("row", "step", "message"),
    [
        ({"loss": 3.0}, None, "row 1: no step; allowed: an entry 'step', or update(row, step=...)"),
        ({"loss": "three"}, 1, "row 1: column 'loss': 'three' is not a number"),
        ({"loss": 3.0, "step": 1.5}, None, "step '1.5' is not a whole number"),
        ({"loss": 3.0}, -1, "step -1 is not allowed"),
    ],
)
def test_bad_rows_are_refused(row: dict[str, Any], step: int | None, message: str) -> None:
    with pytest.raises(InputError) as error:
        Monitor("zclip").update(row, step)
    assert message in str(error.value)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'zclip'"):
        Monitor("zclop")
    with pytest.raises(InputError, match="detectors: none is not allowed"):
        Monitor([])
    with pytest.raises(InputError, match="has no reset"):
        Monitor(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean 'loss'"):
        Monitor("zclip", mapping={"mine": "losss"})


def test_an_alarm_is_strict_json() -> None:
    alarm = Alarm("d", 3, 1e300, ("high_lr",), "r", {"loss": math.nan, "grad_norm": math.inf, "lr": -math.inf})
    facts = json.loads(json.dumps(alarm.to_dict(), allow_nan=False))
    assert facts["signals"] == {"loss": "NaN", "grad_norm": "Infinity", "lr": "-Infinity"}
    assert str(alarm) == "d: alarm at step 3 (loss nan, grad_norm inf, lr -inf; score 1e+300; likely high_lr)"


def test_an_object_is_copied_and_gets_the_context() -> None:
    mine = Seen()
    live = Monitor(mine, context={"lr": 3})
    live.update({"loss": 1.0}, 1)
    assert not hasattr(mine, "context")
    assert live.seats[0].subject.context == {"lr": 3}
