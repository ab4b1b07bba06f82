"""A run's telemetry and weights are bitwise the same alone, in a bundle, and beside a run that went NaN."""

import dataclasses
import shutil
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from trainwreck.kernels.cpp import build
from trainwreck.models.config import Activation, Format, Norm, OptimizerKind, Placement, Variance
from trainwreck.scenarios.config.settings import LossForm, Reduction, Setup, replaced
from trainwreck.scenarios.spec.faults import At, Curve, DataTransform, Scaled, Setting, StateEdit, TableEdit
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.bundle import BUNDLE_ELEMENTS
from trainwreck.scenarios.training.loop import Result

CASES = {
    "healthy": {},
    "micro": {
        "model.width": 64, "model.heads": 4, "model.context": 64, "data.rows": 12, "steps": 6, "evaluation.every": 4,
    },
    "dropout": {"dropout": 0.1},
    "bf16": {"precision.format": Format.BF16},
    "float8": {"precision.format": Format.FP8},
    "fp16 dynamic": {
        "precision.format": Format.FP16, "precision.loss_scale": 2.0**17, "precision.dynamic": True,
        "precision.growth_interval": 4,
    },
    "z-loss": {"z_loss": 1e-3},
    "smoothed, summed": {"label_smoothing": 0.2, "reduction": Reduction.SUM},
    "Post-LN": {"model.placement": Placement.POST},
    "eps outside, log of softmax": {"model.variance": Variance.EPS_OUTSIDE, "loss": LossForm.LOG_OF_SOFTMAX},
    "one pass, kept in half": {
        "model.variance": Variance.ONE_PASS, "precision.weights": Format.BF16,
        "precision.second_moments": Format.FP16, "optimizer.eps": 1e-4,
    },
    "average": {"evaluation.average": 0.9},
    "dropout at evaluation": {"dropout": 0.1, "evaluation.dropout": True},
    "BatchNorm": {"model.norm": Norm.BATCH},
    "SGD": {"optimizer.kind": OptimizerKind.SGD, "optimizer.lr": 0.1},
    "coupled, clipped updates": {"optimizer.coupled": True, "optimizer.update_clip": 0.5},
    "experts": {"model.experts": 16, "model.expert_units": 16, "model.capacity": 0.5, "routing.router_z_loss": 1e-3},
    "experts in bf16": {"model.experts": 16, "precision.format": Format.BF16},
    "two experts a token, dropout": {"model.experts": 16, "model.experts_per_token": 2, "dropout": 0.1},
    "Muon": {"optimizer.kind": OptimizerKind.MUON, "optimizer.lr": 0.02},
    "SwiGLU, RMSNorm, qk-norm": {"model.activation": Activation.SWIGLU, "model.norm": Norm.RMS, "model.qk_norm": True},
}  # fmt: skip


IN_CPP = (
    "micro",
    "dropout",
    "bf16",
    "Post-LN",
    "coupled, clipped updates",
    "experts",
    "Muon",
    "one pass, kept in half",
)


@pytest.fixture(scope="module", params=[(name, None) for name in CASES] + [(name, "cpp") for name in IN_CPP], ids=str)
def case(request) -> tuple[str, str | None]:
    """A setup, and the kernels that it is trained with."""
    if request.param[1] == "cpp" and not any(map(shutil.which, build.COMPILERS)):
        pytest.skip("needs a C++ compiler")
    return request.param


@pytest.fixture(scope="module")
def train(case) -> Callable[..., list[Result]]:
    return partial(loop.train, impl=case[1])


@pytest.fixture(scope="module")
def setup(case, tiny) -> Setup:
    values = {"model.heads": 2, **CASES[case[0]]}
    heads = values.pop("model.heads")
    setup = replaced(tiny, model__heads=1)  # any even width goes with one head
    return replaced(setup, **{name.replace(".", "__"): v for name, v in values.items()}, model__heads=heads)


@pytest.fixture(scope="module")
def alone(setup, make_job, train):
    return train([make_job(3, setup)], keep={"run-3": [setup.steps]})[0]


def poison(state, earlier):
    """One parameter becomes NaN."""
    parameters = state["parameters"].clone()
    parameters[-1] = float("nan")
    return {**state, "parameters": parameters}


def reverse(batch, since, draw):
    return dataclasses.replace(batch, inputs=np.ascontiguousarray(batch.inputs[:, ::-1]))


def test_bundle_of_eight(setup, alone, make_job, train, differing, equal_states):
    no_scores = TableEdit(lambda tables, s: dataclasses.replace(tables, scale_N=torch.zeros_like(tables.scale_N)))
    leak = TableEdit(lambda tables, s: dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS)))
    jobs = [
        make_job(0, setup),
        make_job(1, replaced(setup, optimizer__lr=0.1, optimizer__clip=None)),
        make_job(2, setup, At(2, DataTransform(reverse, "reverse"))),
        make_job(4, setup, At(3, no_scores)),
        make_job(3, setup),
        make_job(3, setup, At(1, Scaled("optimizer.lr", 5.0)), name="other"),
        make_job(5, setup, At(3, Curve(lambda rate, since, s: 0.0)), At(4, Setting("optimizer.beta2", 0.5))),
        make_job(6, setup, At(2, leak)),
    ]
    results = train(jobs, keep={"run-3": [setup.steps]})
    assert differing(alone, results[4]) == []
    assert equal_states(alone.states[setup.steps], results[4].states[setup.steps])
    for other in (*results[:4], *results[5:]):
        assert differing(alone, other)


def test_beside_a_run_gone_nan(setup, alone, make_job, train, differing, equal_states):
    sick = [make_job(seed, setup, At(1, StateEdit(poison))) for seed in (0, 7)]
    jobs = [sick[0], make_job(3, setup), sick[1]]
    assert {job.segment(2).program for job in jobs} == {jobs[1].segment(0).program}  # one bundle
    first, result, last = train(jobs, keep={"run-3": [setup.steps]})
    assert not np.isfinite(first.trace["loss"][1:]).any()
    assert not np.isfinite(last.trace["loss"][1:]).any()
    assert differing(alone, result) == []
    assert equal_states(alone.states[setup.steps], result.states[setup.steps])


def test_bundles_shrink_when_a_neighbour_ends(tiny, make_job, differing, equal_states):
    """The neighbour ends at step 8; the run under test goes on in a bundle of its own."""
    alone = loop.train([make_job(3, tiny)], keep={"run-3": [10, tiny.steps]})[0]
    sick = make_job(0, tiny, At(4, StateEdit(poison)))
    ended, result = loop.train([sick, make_job(3, tiny)], keep={"run-3": [10, tiny.steps]})
    assert len(ended.trace) == 4 + tiny.tail + 1
    assert differing(alone, result) == []
    assert all(equal_states(alone.states[k], result.states[k]) for k in (10, tiny.steps))


def test_bundles_of_any_width(tiny, make_job, differing, monkeypatch):
    """How many runs the caches hold decides the speed and nothing else."""
    jobs = [make_job(seed, tiny) for seed in range(5)]
    wide = loop.train(jobs)
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", 2 * 4 * 32 * 32)  # two runs a bundle
    narrow = loop.train(jobs)
    assert [differing(a, b) for a, b in zip(wide, narrow, strict=True)] == [[]] * 5
