"""What each logging configuration does to the rows of a run, and that detectors take whatever it leaves."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.registry import known_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.logged.config import LoggingConfig, config_of
from trainwreck.evaluation.replay.logged.rows import logged_rows
from trainwreck.evaluation.replay.profiles import ALL_PROFILES, LOGGED, PROFILES, TRAINER, nonfinite_losses, observe
from trainwreck.evaluation.replay.replay import replay, rows

SHOWN = ("loss", "validation_loss", "grad_norm", "lr")


def seen(losses: list[float], *, evaluations: dict[int, float] | None = None, **config: Any) -> list[dict[str, Any]]:
    """Rows of a log, without what they do not have. Gradient norm 2, rate 0.5."""
    stream = [
        {"step": i, "loss": loss, "grad_norm": 2.0, "lr": 0.5, "validation_loss": (evaluations or {}).get(i)}
        for i, loss in enumerate(losses)
    ]
    found = logged_rows(stream, LoggingConfig(**({"signals": ("loss",)} | config)))
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def losses(found: list[dict[str, Any]]) -> dict[int, float | None]:
    return {row["step"]: row.get("loss") for row in found}


def test_all_of_it_by_default() -> None:
    [row] = seen([4.0], evaluations={0: 3.0}, signals=("loss", "validation_loss", "grad_norm", "lr"))
    assert row == {"step": 0, "loss": 4.0, "grad_norm": 2.0, "lr": 0.5, "validation_loss": 3.0}


@pytest.mark.parametrize("name", ["validation_loss", "grad_norm", "lr"])
def test_a_signal_that_is_not_logged(name: str) -> None:
    kept = tuple(other for other in SHOWN if other != name)
    assert [set(row) for row in seen([4.0], evaluations={0: 3.0}, signals=kept)] == [{"step", *kept}]


@pytest.mark.parametrize(
    ("intervals", "from_zero", "steps"),
    [
        (((0, 1),), False, [*range(1, 31)]),
        (((0, 10),), True, [0, 10, 20, 30]),
        (((0, 10),), False, [10, 20, 30]),
        (((0, 1), (4, 10)), False, [1, 2, 3, 10, 20, 30]),
        (((0, 10), (15, 5)), True, [0, 10, 15, 20, 25, 30]),
        (((0, 500),), True, [0]),
    ],
)
def test_intervals(intervals: Any, from_zero: bool, steps: list[int]) -> None:
    assert list(losses(seen([1.0] * 31, intervals=intervals, from_zero=from_zero))) == steps


def test_evaluations_come_with_the_next_row_or_in_rows_of_their_own() -> None:
    values = {0: 5.0, 3: 4.0, 6: 3.0}
    config: dict[str, Any] = {"intervals": ((0, 4),), "from_zero": False, "signals": ("loss", "validation_loss")}
    carried = seen([1.0] * 9, evaluations=values, **config)
    assert [(row["step"], row.get("validation_loss")) for row in carried] == [(4, 4.0), (8, 3.0)]
    own = seen([1.0] * 9, evaluations=values, own_rows=True, **config)
    assert [(row["step"], row.get("loss"), row.get("validation_loss")) for row in own] == [
        (0, None, 5.0), (3, None, 4.0), (4, 1.0, None), (6, None, 3.0), (8, 1.0, None),
    ]  # fmt: skip


def test_few_evaluations() -> None:
    values = {step: float(step) for step in range(0, 200, 25)}
    found = seen([1.0] * 200, evaluations=values, evaluated=100, signals=("loss", "validation_loss"))
    assert [row["step"] for row in found if "validation_loss" in row] == [0, 100]


def test_a_mean_is_of_the_steps_since_the_row_before() -> None:
    assert losses(seen([4.0, 2.0, 1.0, 3.0, 8.0], intervals=((0, 2),), loss="mean")) == {0: 4.0, 2: 1.5, 4: 5.5}


def test_a_running_average_begins_at_the_first_loss() -> None:
    # 0.1 * 4 = 0.4, over 1 - 0.9; then 0.9 * 0.4 + 0.1 * 2 = 0.56, over 1 - 0.81.
    found = losses(seen([4.0, 2.0], loss="average", factor=0.9))
    assert found[0] == pytest.approx(4.0, rel=1e-6)
    assert found[1] == pytest.approx(0.56 / 0.19, rel=1e-6)


def test_level_and_gradient() -> None:
    config: dict[str, Any] = {"scale": 2.0, "shift": 1.0, "grad_scale": 3.0, "signals": SHOWN}
    [row] = seen([4.0], evaluations={0: 3.0}, **config)
    assert row == {"step": 0, "loss": 9.0, "validation_loss": 7.0, "grad_norm": 6.0, "lr": 0.5}


def test_digits() -> None:
    [row] = seen([1 / 3], digits="2", scale=2.0)
    assert row["loss"] == float(np.float32(0.67))


NOT_FINITE = [1.0, 2.0, math.nan, math.inf, 3.0]


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"not_finite": "written"}, {0: 1.0, 1: 2.0, 2: math.nan, 3: math.inf, 4: 3.0}),
        ({"not_finite": "blank"}, {0: 1.0, 1: 2.0, 2: None, 3: math.inf, 4: 3.0}),
        ({"not_finite": "zero", "shift": 1.0}, {0: 2.0, 1: 3.0, 2: 0.0, 3: 0.0, 4: 4.0}),
        ({"not_finite": "last"}, {0: 1.0, 1: 2.0, 2: math.nan}),
        ({"not_finite": "last", "intervals": ((0, 4),)}, {0: 1.0, 4: 3.0}),
        ({"not_finite": "before"}, {0: 1.0, 1: 2.0}),
        ({"not_finite": "before", "intervals": ((0, 4),)}, {0: 1.0}),
        ({"not_finite": "written", "loss": "mean", "intervals": ((0, 4),)}, {0: 1.0, 4: math.nan}),
    ],
)
def test_a_loss_that_is_not_finite(config: dict[str, Any], wanted: dict[int, Any]) -> None:
    assert repr(losses(seen(NOT_FINITE, **config))) == repr(wanted)


def test_a_blank_is_for_a_gradient_and_an_evaluation_too() -> None:
    stream = [{"step": 0, "loss": 1.0, "grad_norm": math.nan, "lr": 0.5, "validation_loss": math.nan}]
    [row] = logged_rows(stream, LoggingConfig(not_finite="blank"))
    assert row == {"step": 0, "loss": 1.0, "grad_norm": None, "lr": 0.5, "validation_loss": None}


def test_no_other_signal_is_shown_and_none_is_lacking(make_trace: Any) -> None:
    trace = make_trace("r")
    names = list(next(iter(rows(trace))))
    for row in observe(rows(trace), LOGGED, run_id="r"):
        assert list(row) == names
        assert {name for name, value in row.items() if value is not None} <= {"step", *SHOWN}


@given(
    run=st.integers(0, 10**6), cut=st.integers(0, 119), future=st.floats(allow_nan=True), nan_from=st.integers(0, 120)
)
def test_a_prefix_is_seen_the_same_whatever_follows(run: int, cut: int, future: float, nan_from: int) -> None:
    def stream(values: list[float]) -> list[dict[str, Any]]:
        return [
            {"step": i, "loss": v, "grad_norm": v, "lr": 0.1, "validation_loss": v if i % 25 == 0 else None}
            for i, v in enumerate(values)
        ]

    values = [4.0 - 0.01 * i if i < nan_from else math.nan for i in range(120)]
    other = values[:cut] + [future] * (120 - cut)

    def shown(values: list[float]) -> list[str]:
        return [repr(row) for row in observe(stream(values), LOGGED, run_id=f"r{run}") if row["step"] < cut]

    assert shown(values) == shown(values[:cut]) == shown(other)


def test_the_other_profiles_are_the_same_for_every_run(make_trace: Any) -> None:
    assert (*PROFILES, LOGGED, TRAINER) == ALL_PROFILES
    trace = make_trace("r")
    for profile in (*PROFILES, TRAINER):
        first, second = (list(map(repr, observe(rows(trace), profile, run_id=run_id))) for run_id in ("a", "b"))
        assert first == second
    first, second = (list(map(repr, observe(rows(trace), LOGGED, run_id=run_id))) for run_id in ("a", "b"))
    assert first != second
    with pytest.raises(InputError, match="profile: 'logged' is not allowed without a run"):
        observe(rows(trace), LOGGED)


def first_with(**wanted: Any) -> str:
    """A run whose logging configuration is so."""
    ids = (f"r{i}" for i in range(10**5))
    return next(one for one in ids if all(getattr(config_of(one), name) == value for name, value in wanted.items()))


@pytest.mark.parametrize(
    ("not_finite", "count"), [("written", 20), ("blank", 0), ("zero", 0), ("last", 1), ("before", 0)]
)
def test_rows_whose_loss_is_not_finite(not_finite: str, count: int, make_trace: Any) -> None:
    run_id = first_with(not_finite=not_finite, intervals=((0, 1),), loss="at step")
    trace = make_trace(run_id, steps=100, loss=np.where(np.arange(100) >= 80, np.nan, 2.0))
    assert nonfinite_losses(trace, LOGGED) == frozenset(range(80, 80 + count))
    assert nonfinite_losses(make_trace(run_id), LOGGED) == frozenset()


DETECTORS = [
    pytest.param(name, marks=pytest.mark.monitors if detector.requires else ())
    for name, detector in known_detectors().items()
]
CONFIGS = [
    {"not_finite": "blank", "intervals": ((0, 1),)},
    {"not_finite": "written", "own_rows": True, "intervals": ((0, 10),), "from_zero": False},
    {"not_finite": "zero", "intervals": ((0, 1), (11, 10))},
    {"not_finite": "before", "loss": "mean"},
]


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_takes_the_rows(name: str, make_trace: Any) -> None:
    loss = np.where(np.arange(120) >= 90, np.nan, 4.0 - 0.01 * np.arange(120))
    for wanted in CONFIGS:
        trace = make_trace(first_with(**wanted), loss=loss)
        found = replay(known_detectors()[name], trace, LOGGED)
        assert found.status == "ok"
        assert found.rows == len(list(observe(rows(trace), LOGGED, run_id=trace.run_id))) > 0


def test_a_log_without_a_row(make_trace: Any) -> None:
    trace: Trace = make_trace(first_with(not_finite="before"), loss=np.full(120, np.nan))
    found = replay(known_detectors()["always"], trace, LOGGED)
    assert (found.status, found.rows, found.first_alarm) == ("ok", 0, None)
