"""Counts of non-finite gradients and weights, skipped steps and the loss scale where gradients overflow."""

import math

import numpy as np
import pytest
import torch

from trainwreck.models.config import Format
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.faults import At, StateEdit
from trainwreck.scenarios.training.loop import train


def spoil(plan, *names):
    """A state edit that makes the first element of some parameters NaN, infinite, NaN."""
    starts = {slot.name: slot.start for slot in plan.slots}

    def edit(state, earlier):
        parameters = state["parameters"].clone()
        for name, value in zip(names, (math.nan, math.inf, math.nan), strict=False):
            parameters[starts[name]] = value
        return {**state, "parameters": parameters}

    return StateEdit(edit)


@pytest.fixture
def overflowing(tiny):
    """A loss scale that float16 gradients can't take at first, halved at every overflow."""
    return replaced(
        tiny, precision__format=Format.FP16, precision__loss_scale=2.0**26, precision__dynamic=True,
        precision__largest_scale=2.0**30, precision__growth_interval=5,
    )  # fmt: skip


def test_dynamic_scale_follows_its_rule(overflowing, make_job):
    """As torch.amp.GradScaler: halved after an overflow, doubled after five steps in a row without one."""
    trace = train([make_job(3, overflowing)])[0].trace
    skipped, scale, good = trace["skipped"], 2.0**26, 0
    assert 0 < skipped.sum() < len(skipped)
    for step in range(len(trace)):
        assert trace["loss_scale"][step] == scale
        good = 0 if skipped[step] else good + 1
        scale = scale / 2 if skipped[step] else scale * 2 if good == 5 else scale
        good %= 5
    assert np.array_equal(skipped == 1, trace["nonfinite_grads"] > 0)
    assert np.array_equal(skipped == 1, ~np.isfinite(trace["grad_norm"]))


def test_a_skipped_step_changes_the_scale_alone(overflowing, make_job):
    result = train([make_job(3, overflowing)], keep={"run-3": range(overflowing.steps + 1)})[0]
    for step, skipped in enumerate(result.trace["skipped"]):
        before, after = result.states[step], result.states[step + 1]
        same = all(torch.equal(before[name], after[name]) for name in ("parameters", "first", "second", "count"))
        assert same == bool(skipped)
        assert (result.trace["layer_update_ratio"][step] == 0).all() == bool(skipped)


def test_static_scale_skips_and_stays(overflowing, make_job, equal_states):
    setup = replaced(overflowing, precision__dynamic=False, precision__loss_scale=2.0**39, steps=4)
    result = train([make_job(3, setup)], keep={"run-3": [0, 4]})[0]
    assert result.trace["skipped"].tolist() == [1, 1, 1, 1]
    assert result.trace["loss_scale"].tolist() == [2.0**39] * 4
    assert torch.equal(result.states[0]["parameters"], result.states[4]["parameters"])


def test_without_a_scale_nothing_is_skipped(tiny, make_job):
    trace = train([make_job(3, tiny, At(2, spoil(layout(tiny.model), "head.bias")))])[0].trace
    assert not trace["skipped"].any()
    assert trace["nonfinite_grads"][2] > 0


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        (("head.bias",), 1),
        (("layer_0.qkv.bias", "layer_0.mlp_in.bias"), 1),
        (("layer_0.qkv.bias", "layer_1.qkv.bias", "head.bias"), 3),
    ],
)
def test_nonfinite_counts(names, layers, tiny, make_job, plain):
    result = train([make_job(3, tiny, At(2, spoil(layout(tiny.model), *names)))], keep={"run-3": [2]})[0]
    trace = result.trace
    assert trace["nonfinite_weights"][:3].tolist() == [0, 0, layers]
    assert trace["nonfinite_grads"][:2].tolist() == [0, 0]
    direct = plain(result.states[2], training_block(tiny, 3, range(2, 3)).at(0), tiny).grad
    assert trace["nonfinite_grads"][2] == (~torch.isfinite(direct)).sum()
