"""A captured step, with work noted and done again in place of a CUDA graph: the same bits, at the same addresses."""

import dataclasses
import gc
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from trainwreck.models.config import Format, Norm, OptimizerKind, Recompute
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, ParametrizationEdit, TableEdit, UpdateEdit
from trainwreck.scenarios.training import cuda_graph
from trainwreck.scenarios.training.block import run_block
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.cuda_graph import WARM_UP, CapturedStep, capturable
from trainwreck.scenarios.training.loop import fresh_state

BLOCKS = (range(7), range(7, 14))


def kept(updates, plan):
    return dataclasses.replace(updates, kept_N=torch.ones(1, dtype=torch.bool))


def frozen(updates, plan):
    reaches = torch.ones(1, plan.size, dtype=torch.bool)
    reaches[:, : plan.size // 2] = False
    return dataclasses.replace(updates, reaches_NP=reaches)


def halved(parametrization, plan):
    return parametrization.scaled(torch.arange(plan.size // 3), 0.5, plan.size)


def leaking(tables, setup):
    return dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS))


def noisy(tables, setup):
    return dataclasses.replace(tables, noise_N=torch.full((1,), 0.1))


# A loss scale that overflows in some steps and grows after others.
FP16 = {
    "precision__format": Format.FP16, "precision__loss_scale": 2.0**17, "precision__dynamic": True,
    "precision__growth_interval": 2,
}  # fmt: skip
CASES = {
    "healthy": ({}, ()),
    "fp16 dynamic": (FP16, ()),
    "fp16 moments, bf16 weights": (
        {"precision__second_moments": Format.FP16, "precision__weights": Format.BF16}, (),
    ),
    "SGD, RMSNorm": ({"optimizer__kind": OptimizerKind.SGD, "model__norm": Norm.RMS}, ()),
    "BatchNorm": ({"model__norm": Norm.BATCH}, ()),
    "float8": ({"precision__format": Format.FP8}, ()),
    "average, fresh rows": ({"evaluation__average": 0.9, "evaluation__fresh": True}, ()),
    "z-loss": ({"z_loss": 1e-3}, ()),
    "gradients kept": ({}, (At(0, UpdateEdit(kept)),)),
    "half frozen": ({}, (At(0, UpdateEdit(frozen)),)),
    "parametrized": ({}, (At(0, ParametrizationEdit(halved)),)),
    "leaking mask": ({}, (At(0, TableEdit(leaking)),)),
}  # fmt: skip


@pytest.fixture(params=CASES)
def make_bundle(request, tiny, make_job):
    values, changes = CASES[request.param]
    setup = replaced(tiny, **values)
    jobs = [make_job(0, setup, *changes), make_job(1, replaced(setup, optimizer__lr=2 * setup.optimizer.lr), *changes)]
    return lambda: Bundle(jobs, [fresh_state(job) for job in jobs], 0)


def test_the_numbers_of_steps_one_by_one(make_bundle, equal_states, noted):
    plain, bundle = make_bundle(), make_bundle()
    bundle.captured = CapturedStep(bundle, noted)
    for steps in BLOCKS:
        (expected, losses), (found, others) = run_block(plain, steps, True), run_block(bundle, steps, True)
        for one, other in zip(expected, found, strict=True):
            assert one.keys() == other.keys()
            assert [name for name in one if not np.array_equal(one[name], other[name], equal_nan=True)] == []
        assert losses.keys() == others.keys()
        assert all(np.array_equal(losses[step], others[step], equal_nan=True) for step in losses)
    assert all(map(equal_states, plain.states(), bundle.states()))
    count = sum(map(len, BLOCKS))
    assert bundle.captured.graph.done == ["warm up"] * WARM_UP + ["capture"] + ["replay"] * (count - WARM_UP)


def test_every_tensor_stays_where_it_is(make_bundle, noted):
    """A graph knows addresses alone."""
    bundle = make_bundle()
    bundle.captured = CapturedStep(bundle, noted)
    run_block(bundle, range(WARM_UP + 1), True)
    before = tensors(bundle)  # held, so that no other takes the place of one
    assert len(before) > 20
    run_block(bundle, range(WARM_UP + 1, WARM_UP + 4), True)
    after = tensors(bundle)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name].data_ptr() != after[name].data_ptr()] == []


def tensors(found, name="bundle", seen=None):
    """Dotted name to every tensor that an object holds, in lists, dictionaries and objects of ours."""
    seen = set() if seen is None else seen
    if isinstance(found, torch.Tensor):
        return {name: found}
    if id(found) in seen or hasattr(found, "replay"):
        return {}
    seen.add(id(found))
    if isinstance(found, dict):
        parts = found.items()
    elif isinstance(found, list | tuple):
        parts = enumerate(found)
    elif type(found).__module__.startswith("trainwreck."):
        parts = vars(found).items() if hasattr(found, "__dict__") else ()
    else:
        return {}
    return {key: value for k, part in parts for key, value in tensors(part, f"{name}.{k}", seen).items()}


def test_without_a_record_nothing_is_written(tiny, make_job, equal_states, noted):
    jobs = [make_job(0, tiny)]
    plain, bundle = (Bundle(jobs, [fresh_state(job) for job in jobs], 0) for _ in range(2))
    bundle.captured = CapturedStep(bundle, noted)
    assert run_block(plain, range(9), False) == run_block(bundle, range(9), False) == ([], {})
    assert equal_states(plain.states()[0], bundle.states()[0])


@pytest.mark.parametrize(
    ("values", "changes"),
    [({"dropout": 0.1}, ()), ({"model__recompute": Recompute.SAME_MASKS}, ()), ({}, (At(0, TableEdit(noisy)),))],
)
def test_what_the_host_draws_or_computes_again_is_not_captured(values, changes, tiny, make_job, noted):
    job = make_job(0, replaced(tiny, **values), *changes)
    bundle = Bundle([job], [fresh_state(job)], 0)
    assert not capturable(bundle)
    with pytest.raises(
        ValueError,
        match="graphs: dropout, noise, own tokens, rewards, retrieval, frames, recomputation and several ranks are ",
    ):
        CapturedStep(bundle, noted)


def test_inputs_are_all_that_a_step_is_fed(tiny, make_job):
    """What the graph would not be given anew is of the host."""
    job = make_job(0, tiny)
    block = Bundle([job], [fresh_state(job)], 0).inputs(range(2))
    names = {field.name for field in dataclasses.fields(block) if isinstance(getattr(block, field.name), torch.Tensor)}
    assert names == set(cuda_graph.INPUTS)


def test_nothing_is_collected_while_a_step_is_captured(monkeypatch):
    """An earlier bundle's graph, which refers to itself, would be freed: CUDA ends the capture then."""
    seen = []

    @contextmanager
    def captured(graph, stream, capture_error_mode):
        seen.append((gc.isenabled(), capture_error_mode))
        yield

    for name, stand_in in (("CUDAGraph", object), ("Stream", object), ("graph", captured)):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    cuda_graph.CudaGraph().capture(lambda: seen.append(gc.isenabled()))
    assert seen == [(False, "thread_local"), False]
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        cuda_graph.CudaGraph().capture(lambda: 1 / 0)
    assert gc.isenabled()
