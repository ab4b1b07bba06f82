"""The settings of a run as plain values; positions as expressions."""

import dataclasses

import pytest
import torch

from trainwreck.models.rotary import rotary_table
from trainwreck.models.tables import healthy_tables
from trainwreck.scenarios.reproducers.syntax import positions
from trainwreck.scenarios.reproducers.values import NotPlainError, told
from trainwreck.scenarios.spec.faults import At, Setting, TableEdit, UpdateEdit, Variant


@pytest.fixture
def of(tiny, make_job):
    """The settings of a run with one change."""
    return lambda *changes: told(make_job(0, tiny, *(At(0, change) for change in changes)).segment(0))


def table(name, value):
    return TableEdit(lambda tables, setup: dataclasses.replace(tables, **{name: value}))


def test_a_healthy_run(of):
    found = of()
    assert found["lr"] == 0.01
    assert found["scale"] == 0.25
    assert found["diagonal"] == 0
    assert found["q_positions"] == found["k_positions"] == tuple(range(32))
    assert found["branch_gain"] == [1.0, 1.0]
    assert found["frozen"] == ()


def test_masks(of):
    whole = torch.ones(1, 32, 32, dtype=torch.bool)
    assert of(table("allowed_NTS", whole))["diagonal"] == 32
    assert of(table("allowed_NTS", whole.tril(1)))["diagonal"] == 1
    assert of(table("allowed_NTS", ~whole.tril()))["inverted"]
    with pytest.raises(NotPlainError, match="this mask"):
        of(table("allowed_NTS", whole.tril(5)))


def test_angles_that_were_formed_in_bfloat16_are_told_from_other_tables(of, tiny):
    model = tiny.model
    rounded = rotary_table(32, model.head_width, model.rope_base, angles=torch.bfloat16)[None]
    both = of(table("rotary_q_NTK", rounded), table("rotary_k_NTK", rounded))
    assert (both["angle_format"], of()["angle_format"]) == ("bf16", "fp32")
    assert both["q_positions"] == both["k_positions"] == tuple(range(32))
    with pytest.raises(NotPlainError, match="this rotary table"):
        of(table("rotary_q_NTK", rounded))


@pytest.mark.parametrize(
    ("told_positions", "expression"),
    [
        ([*range(32)], "range(32)"),
        ([0] * 32, "[0] * 32"),
        ([*range(4, 36)], "range(4, 32 + 4)"),
        ([min(t, 16) for t in range(32)], "[min(p, 16) for p in range(32)]"),
        ([t / 24 for t in range(32)], "[p / 24 for p in range(32)]"),
        ([t + 4 * (t // 4) for t in range(32)], "[p + 4 * (p // 4) for p in range(32)]"),
    ],
)
def test_positions_are_read_off_rotary_tables(of, tiny, told_positions, expression):
    model = tiny.model
    slow = torch.stack([rotary_table(1, model.head_width, model.rope_base, offset=t)[0] for t in told_positions])
    found = of(table("rotary_q_NTK", slow[None]))["q_positions"]
    assert found == pytest.approx(told_positions, abs=1e-6)
    assert positions(found) == expression


def test_updates(of):
    def freeze(updates, plan):
        reaches = torch.ones(1, plan.size, dtype=torch.bool)
        for _, start, stop in plan.segments[1:-1]:
            reaches[:, start:stop] = False
        return dataclasses.replace(updates, reaches_NP=reaches, gain_N=torch.tensor([0.1]))

    found = of(UpdateEdit(freeze))
    assert found["frozen"] == ("layer_0.", "layer_1.")
    assert found["gradient_gain"] == 0.1

    def half(updates, plan):
        reaches = torch.ones(1, plan.size, dtype=torch.bool)
        reaches[:, :5] = False
        return dataclasses.replace(updates, reaches_NP=reaches)

    with pytest.raises(NotPlainError, match="parts of a parameter"):
        of(UpdateEdit(half))


def test_what_the_plain_program_has_no_word_for(of):
    with pytest.raises(NotPlainError, match="activation 'swiglu'"):
        of(Variant("model.activation", type(healthy_activation())("swiglu")))
    with pytest.raises(NotPlainError, match="bias"):
        of(Setting("model.bias", False))
    noisy = TableEdit(lambda tables, setup: healthy_tables(dataclasses.replace(setup.model, rope_base=50.0), 1))
    with pytest.raises(NotPlainError, match="rotary table"):
        of(noisy)


def healthy_activation():
    from trainwreck.models.config import Activation

    return Activation.GELU
