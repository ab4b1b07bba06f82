"""The telemetry of a run in memory and as a table: the same numbers, bitwise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.dataset.schema import ADDED_SIGNALS, SIGNALS, Axis, telemetry_schema
from trainwreck.evaluation.dataset.trace import Trace

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, np.finfo(np.float32).max, np.finfo(np.float32).tiny, 0.1]


def bits(values: np.ndarray) -> np.ndarray:
    """Bit patterns, so that NaN equals NaN and 0 differs from -0."""
    assert values.dtype == np.float32
    return values.view(np.uint32)


def assert_same(found: Trace, made: Trace) -> None:
    assert found.run_id == made.run_id
    np.testing.assert_array_equal(found.evaluated, made.evaluated)
    assert set(found.signals) == {signal.name for signal in SIGNALS}
    for name, values in made.signals.items():
        assert found[name].shape == values.shape, name
        keep = made.evaluated if name == "validation_loss" else slice(None)
        np.testing.assert_array_equal(bits(found[name][keep]), bits(values[keep]), name)
    assert np.isnan(found["validation_loss"][~found.evaluated]).all()


@given(
    seed=st.integers(0, 99),
    steps=st.integers(1, 30),
    widths=st.fixed_dictionaries({axis: st.integers(1, 9) for axis in Axis if axis is not Axis.SCALAR}),
)
def test_a_table_holds_every_number_exactly(seed: int, steps: int, widths: dict[Axis, int]) -> None:
    random = np.random.default_rng(seed)
    signals = {}
    for signal in SIGNALS:
        shape = (steps,) if signal.axis is Axis.SCALAR else (steps, widths[signal.axis])
        signals[signal.name] = random.choice(np.array(SPECIAL, np.float32), shape)
        if signal.name in ADDED_SIGNALS and signal.axis is not Axis.SCALAR:
            signals[signal.name][0, 0] = 0.1  # of a list without any number a file does not hold the length
    evaluated = random.random(steps) < 0.5
    signals["validation_loss"][~evaluated] = np.nan
    made = Trace("r", signals, evaluated)
    table = made.to_table()
    assert table.schema.equals(telemetry_schema(), check_metadata=True)
    assert table["step"].to_pylist() == list(range(steps))
    assert set(table["run_id"].to_pylist()) == {"r"}
    assert_same(Trace.from_table(table), made)


def test_values_of_another_type_or_order_in_memory_are_the_same_table(make_trace: Any) -> None:
    made = make_trace("r", steps=20)
    strange = {name: np.asfortranarray(values.astype(">f8")) for name, values in made.signals.items()}
    assert Trace("r", strange, made.evaluated).to_table().equals(made.to_table())


def test_an_evaluation_that_gave_nan_is_not_a_missing_one(make_trace: Any) -> None:
    made = make_trace("r", steps=60)
    made["validation_loss"][39] = np.nan
    column = made.to_table()["validation_loss"]
    assert column.null_count == 60 - 3
    assert column[39].is_valid
    steps, values = Trace.from_table(made.to_table()).evaluations
    assert steps.tolist() == [19, 39, 59]
    assert np.isnan(values).tolist() == [False, True, False]


def test_length_and_evaluations(make_trace: Any) -> None:
    made = make_trace("r", steps=45)
    assert len(made) == 45
    steps, values = made.evaluations
    assert steps.tolist() == [19, 39]
    np.testing.assert_array_equal(values, made["validation_loss"][[19, 39]])
    assert len(make_trace("r", steps=10).evaluations[0]) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_final_loss_is_the_last_evaluation_of_a_run_that_ended_finite(bad: float, make_trace: Any) -> None:
    made = make_trace("r", steps=60)
    assert made.finite()
    assert made.final_loss() == made["validation_loss"][59]
    made["grad_norm"][3] = bad
    assert made.finite(), "it is the loss that counts"
    made["loss"][3] = bad
    assert not made.finite()
    assert made.final_loss() == made["validation_loss"][59], "it came back"
    made["loss"][59] = bad
    assert np.isnan(made.final_loss())
    made["loss"][59], made["validation_loss"][59] = 1.0, bad
    assert np.isnan(made.final_loss()), "held-out rows may overflow where the last batch does not"
    assert np.isnan(make_trace("r", steps=10).final_loss()), "none was made"


def sparse(make_trace: Any) -> Trace:
    """As a log has it: every tenth step, some signals at some of them, most at none."""
    made = make_trace("r", steps=20)
    half = np.arange(20) % 2 == 0
    signals = {name: made[name] for name in ("loss", "grad_norm", "layer_grad_norm", "validation_loss", "fresh_loss")}
    signals["grad_norm"][~half], signals["layer_grad_norm"][half] = np.nan, np.nan
    signals["loss"][3] = np.nan
    logged = {s.name: np.zeros(20, bool) for s in SIGNALS if s.name not in signals}
    logged |= {"grad_norm": half, "layer_grad_norm": ~half}
    return Trace("r", signals, made.evaluated, np.arange(20) * 10 + 5, logged)


def test_a_log_with_gaps_is_held_exactly(make_trace: Any) -> None:
    made = sparse(make_trace)
    table = made.to_table()
    assert table["step"].to_pylist() == list(range(5, 205, 10))
    assert table["loss"].null_count == 0
    assert table["grad_norm"].null_count == table["layer_grad_norm"].null_count == 10
    assert table["log_z"].null_count == table["head_entropy"].null_count == 20
    found = Trace.from_table(table)
    assert set(found.signals) == set(made.signals)
    assert set(found.logged) == set(made.logged)
    for name, there in made.logged.items():
        np.testing.assert_array_equal(found.logged[name], there, name)
    for name, values in made.signals.items():
        np.testing.assert_array_equal(found[name], values, name)
    assert found.evaluations[0].tolist() == [195]
    assert repr(found.to_table().to_pydict()) == repr(table.to_pydict())
