"""How safe an outcome is: numbers near a bound, a tolerance nearly used up, starts that differ in their last bits."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.reproducers import margin
from trainwreck.scenarios.reproducers.agreement import check_starts
from trainwreck.scenarios.reproducers.margin import Starts, from_moved_starts, loaded, moved_starts, outcome
from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.training.loop import train


def names(**more):
    return {"TOLERANCE": 0.1, "ONSET": 1, "signature": lambda run, twin, onset: run["loss"][-1] > 3.0} | more


def run(loss: float, final: float):
    return {
        "loss": np.array([4.5, loss], np.float32),
        "validation_loss": np.array([np.nan, final], np.float32),
    }


@pytest.mark.parametrize(
    ("loss", "shown", "steady"), [(3.5, True, True), (3.01, True, False), (2.99, False, False), (2.5, False, True)]
)
def test_a_number_near_its_bound_is_not_steady(loss, shown, steady):
    runs = {"twin": run(2.5, 2.5), "faulty": run(loss, 3.5), "cured": run(2.5, 2.5)}
    found = outcome(names(), runs)
    assert (found.shown, found.steady) == (shown, steady)
    assert found.holds is shown


def test_a_signature_that_the_twin_has_too_is_none():
    runs = {"twin": run(3.5, 2.5), "faulty": run(3.5, 3.5), "cured": run(2.5, 2.5)}
    assert not outcome(names(), runs).shown


def test_the_gap_is_in_tolerances():
    runs = {"twin": run(2.5, 2.5), "faulty": run(3.5, 3.5), "cured": run(2.5, 2.58)}
    assert outcome(names(), runs).gap == pytest.approx(0.8, abs=1e-4)
    runs["cured"] = run(2.5, 2.62)
    assert not outcome(names(), runs).holds
    runs["cured"] = run(2.5, float("nan"))
    assert not outcome(names(), runs).holds


def test_a_look_alike_is_beside_its_twin_or_the_entropy():
    look_alike = {"twin": run(2.5, 2.5), "faulty": run(2.5, 2.52)}
    assert outcome(names(), look_alike).gap == pytest.approx(0.2, abs=1e-4)
    assert outcome(names(ENTROPY=2.47), {"faulty": run(2.5, 2.52)}).gap == pytest.approx(0.5, abs=1e-4)


def test_whole_numbers_are_not_moved():
    """A loss scale of 1, or a count of 3, is exact."""
    exact = names(signature=lambda run, twin, onset: run["scale"][-1] == 1.0)
    runs = {kind: run(2.5, 2.5) | {"scale": np.float32([2.0, 1.0])} for kind in ("faulty", "cured")}
    runs["twin"] = run(2.5, 2.5) | {"scale": np.float32([2.0, 2.0])}
    assert outcome(exact, runs).steady


def test_starts_differ_in_their_last_bits_and_the_first_is_the_runs_own():
    short = Program("benign_gradient_rise", overrides=("steps=24", "evaluation.rows=4"))
    first, moved, again = (from_moved_starts(short, count)[-1].gap for count in (1, 2, 2))
    assert first != moved == again
    assert first == pytest.approx(moved, rel=0.01)


def apart(loss: float, other: float):
    """What becomes of starts whose faulty runs have these last losses, the first one alone the first of them."""

    def starts(_, which):
        return [
            {"twin": run(2.5, 2.5), "faulty": run(other if start else loss, 3.5), "cured": run(2.5, 2.5 + start / 100)}
            for start in which
        ]

    return starts


@pytest.mark.parametrize(
    ("loss", "other", "expected"),
    [
        (3.5, 3.5, Starts(4, 4, pytest.approx(0.3, abs=1e-4), 0.0)),
        (3.5, 3.502, Starts(12, 11, pytest.approx(1.1, abs=1e-4), pytest.approx(0.002, abs=1e-5))),
        (3.5, 2.9, Starts(12, 1, pytest.approx(1.1, abs=1e-4), pytest.approx(0.6, abs=1e-5))),
        (float("nan"), 3.5, Starts(12, 10, pytest.approx(1.1, abs=1e-4), None)),
        (float("nan"), float("nan"), Starts(4, 0, pytest.approx(0.3, abs=1e-4), 0.0)),
    ],
)
def test_runs_that_leave_each_other_are_trained_from_more_starts(loss, other, expected, monkeypatch):
    monkeypatch.setattr(margin, "_from_starts", apart(loss, other))
    monkeypatch.setattr(margin, "loaded", lambda _: names())
    assert moved_starts(Program("high_lr")) == expected


def test_starts_are_trained_once(tmp_path, monkeypatch):
    found = Starts(4, 4, 0.25, 1e-6)
    monkeypatch.setattr("trainwreck.scenarios.reproducers.agreement.moved_starts", lambda _: found)
    assert check_starts("high_lr", tmp_path) == found
    monkeypatch.setattr("trainwreck.scenarios.reproducers.agreement.moved_starts", lambda _: pytest.fail("again"))
    assert check_starts("high_lr", tmp_path) == found
    with pytest.raises(pytest.fail.Exception, match="again"):
        check_starts("high_lr_masked_by_decay", tmp_path)


def test_each_run_starts_as_its_own_model_does():
    """The faulty run has no qk-norm from its first step on, and its twin has one."""
    short = Program("attention_logit_growth", overrides=("steps=6", "evaluation.rows=4"))
    (first,) = from_moved_starts(short, 1)
    names = {*short.harvest.signals, "validation_loss"}
    traces = [result.trace for result in train([spec.job() for spec in short.specs.values()])]
    alone = {
        role.value: {name: np.asarray(trace[name]) for name in names}
        for role, trace in zip(short.specs, traces, strict=True)
    }
    assert first == outcome(loaded(program_text(short)), alone)


def test_overrides_are_in_the_program():
    assert " steps=200," in program_text(Program("high_lr", overrides=("steps=200",)))


def test_a_program_that_is_loaded_leaves_the_algorithms_of_this_process():
    assert loaded(program_text(Program("high_lr")))["SEED"] == 0
    assert not torch.are_deterministic_algorithms_enabled()
