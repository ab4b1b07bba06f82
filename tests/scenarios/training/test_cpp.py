"""Training with the C++ kernels: what the reference does, up to rounding, in every signal."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch

from trainwreck.kernels.cpp import build
from trainwreck.models.config import Activation, Format, Norm, OptimizerKind, Placement
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, TableEdit
from trainwreck.scenarios.training.bundle import BUNDLE_ELEMENTS
from trainwreck.scenarios.training.loop import train

pytestmark = pytest.mark.skipif(not any(map(shutil.which, build.COMPILERS)), reason="needs a C++ compiler")

LEAK = At(0, TableEdit(lambda tables, s: dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))))
CASES = {
    "healthy": ({}, ()),
    "a mask that leaks, RMSNorm, SwiGLU": (
        {"model__norm": Norm.RMS, "model__activation": Activation.SWIGLU}, (LEAK,),
    ),
    "Post-LN, dropout": ({"model__placement": Placement.POST, "dropout": 0.2}, ()),
    "experts": ({"model__experts": 16, "model__expert_units": 16}, ()),
    "clipped updates, z-loss": ({"optimizer__update_clip": 0.5, "optimizer__coupled": True, "z_loss": 1e-3}, ()),
    "Muon": ({"optimizer__kind": OptimizerKind.MUON, "optimizer__lr": 0.02}, ()),
    "bf16": ({"precision__format": Format.BF16}, ()),
}  # fmt: skip
CLOSE, CLOSE_BF16 = {"rtol": 2e-4, "atol": 2e-5}, {"rtol": 3e-2, "atol": 3e-3}
# Where a gradient is little more than rounding, so is its second moment, and g / sqrt(v) is a ratio of both.
LOOSE = {"layer_moment_rms": 1e-2}


@pytest.mark.parametrize("name", CASES)
def test_every_signal_of_the_first_steps_is_the_references_up_to_rounding(name, tiny, make_job):
    changes, faults = CASES[name]
    setup = replaced(tiny, steps=3, evaluation__every=2, schedule__warmup_steps=0, **changes)
    jobs = [make_job(seed, setup, *faults) for seed in (1, 2)]
    for ours, right in zip(train(jobs, impl="cpp"), train(jobs, impl="reference"), strict=True):
        assert set(ours.trace.signals) == set(right.trace.signals)
        for signal, value in right.trace.signals.items():
            if signal not in ("step_seconds", "tokens_per_second"):
                close = CLOSE_BF16 if name == "bf16" else CLOSE | {"rtol": LOOSE.get(signal, CLOSE["rtol"])}
                np.testing.assert_allclose(ours.trace[signal], value, **close, equal_nan=True, err_msg=signal)


def test_a_run_learns_as_the_references_does(tiny, make_job):
    setup = replaced(tiny, steps=60, evaluation__every=59)
    ours, right = (train([make_job(1, setup)], impl=impl)[0].trace for impl in ("cpp", "reference"))
    assert not np.array_equal(ours["loss"], right["loss"])  # other kernels, other bits
    np.testing.assert_allclose(ours["loss"], right["loss"], rtol=0, atol=0.05)
    assert right["loss"][0] - right["loss"][-5:].mean() > 0.5


def test_more_runs_are_stepped_as_one_than_with_the_references_kernels(tiny, make_job, monkeypatch):
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", 2 * 4 * 32 * 32)  # two runs a bundle
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpp", 4 * 4 * 32 * 32)
    jobs, built = [make_job(seed, tiny) for seed in range(4)], []
    for impl in ("reference", "cpp"):
        train(jobs, impl=impl, stop=2, built=built.append)
    assert built == [2, 1]
