"""Bundles that live as long as their runs: what changes about a run is written over its row, and changes no number."""

import dataclasses

import numpy as np
import pytest
import torch

from trainwreck.models.config import Format, Norm, OptimizerKind
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import (
    At,
    Curve,
    DataTransform,
    ParametrizationEdit,
    Scaled,
    Setting,
    StateEdit,
    TableEdit,
    UpdateEdit,
    Variant,
)
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.block import run_block
from trainwreck.scenarios.training.bundle import BUNDLE_ELEMENTS, Bundle
from trainwreck.scenarios.training.cuda_graph import WARM_UP, CapturedStep
from trainwreck.scenarios.training.loop import fresh_state, train

HOT = Scaled("optimizer.lr", 30.0)
DROPOUT = Setting("dropout", 0.1)
OTHER_NORM = Variant("model.norm", Norm.RMS)
NO_SCORES = TableEdit(lambda tables, s: dataclasses.replace(tables, scale_N=torch.zeros_like(tables.scale_N)))
FLAT = Curve(lambda rate, since, s: 1e-3)


def poison(state, earlier):
    return {**state, "parameters": torch.full_like(state["parameters"], torch.nan)}


def doubled(state, earlier):
    return {**state, "second": 2 * state["second"] + earlier["second"]}


def reverse(batch, since, draw):
    return dataclasses.replace(batch, inputs=np.ascontiguousarray(batch.inputs[:, ::-1]))


@pytest.fixture
def jobs(tiny, make_job):
    """Every kind of change, at steps of its own; two programs besides the healthy one, one of them left again."""
    return [
        make_job(1, tiny, name="twin"),
        make_job(1, tiny, At(6, HOT), name="faulty"),
        make_job(1, tiny, At(6, HOT), At(13, Scaled("optimizer.lr", 1 / 30.0)), name="cured"),
        make_job(2, tiny, At(3, NO_SCORES), name="tables"),
        make_job(2, tiny, At(4, DROPOUT, 11), name="there and back"),
        make_job(3, tiny, At(9, DROPOUT), name="there"),
        make_job(3, tiny, At(5, StateEdit(doubled, -2)), name="state"),
        make_job(4, tiny, At(5, StateEdit(poison)), At(12, DROPOUT), name="ends"),
        make_job(4, tiny, At(7, OTHER_NORM), At(2, FLAT, 10), name="other norm"),
        make_job(5, tiny, At(8, DataTransform(reverse, "reverse")), name="data"),
    ]


@pytest.mark.parametrize("reserve", [False, True])
def test_the_numbers_of_each_run_alone(reserve, jobs, tiny, differing, equal_states):
    keep = {job.run_id: [5, 6, tiny.steps] for job in jobs}
    together = train(jobs, keep=keep, reserve=reserve)
    for job, found in zip(jobs, together, strict=True):
        alone = train([job], keep=keep)[0]
        assert differing(alone, found) == []
        assert alone.trace.evaluated.tolist() == found.trace.evaluated.tolist()
        assert alone.states.keys() == found.states.keys()
        assert all(equal_states(alone.states[step], found.states[step]) for step in alone.states)


def test_read_a_block_late_the_numbers_are_the_same(jobs, differing, equal_states, monkeypatch):
    """As on a device, where a block is read when the next one has been asked for."""
    monkeypatch.setattr(loop, "BLOCK", 4)
    keep = {job.run_id: [6, job.setup.steps] for job in jobs}
    expected = train(jobs, keep=keep)
    monkeypatch.setattr(loop, "_is_read_late", lambda place: True)
    seen = []
    found = train(jobs, keep=keep, reserve=True, watch=lambda trace: seen.append((trace.run_id, trace.steps.tolist())))
    for job, one, other in zip(jobs, expected, found, strict=True):
        assert differing(one, other) == []
        assert one.states.keys() == other.states.keys()
        assert all(equal_states(one.states[step], other.states[step]) for step in one.states)
        assert [step for name, steps in seen if name == job.run_id for step in steps] == one.trace.steps.tolist()


def built(jobs, **options):
    counts = []
    train(jobs, built=counts.append, record=False, **options)
    return counts[0]


def test_a_program_is_built_once(jobs):
    programs = {segment.program for job in jobs for segment in job.segments}
    assert len(programs) == 3
    assert built(jobs, reserve=True) == 3


def test_sixty_four_runs_with_onsets_of_their_own(tiny, make_job, monkeypatch):
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", 64 * 4 * 32 * 32)
    changes = [HOT, NO_SCORES, FLAT, DROPOUT, StateEdit(doubled), OTHER_NORM]
    jobs = [make_job(i, tiny, At(1 + i % 17, changes[i % len(changes)])) for i in range(64)]
    assert built(jobs, reserve=True) == len({s.program for job in jobs for s in job.segments}) == 3


def test_a_change_that_keeps_the_program_builds_nothing(tiny, make_job):
    changes = (At(3, HOT), At(6, NO_SCORES, 9), At(7, StateEdit(doubled, -1)), At(12, FLAT))
    assert built([make_job(0, tiny, *changes), make_job(1, tiny)]) == 1
    assert built([make_job(0, tiny, At(3, DROPOUT))]) == 2


def test_a_run_that_enters_later_gets_its_slot(tiny, make_job, differing):
    state = train([make_job(1, tiny)], keep={"run-1": [8]})[0].states[8]
    jobs, enter = [make_job(0, tiny), make_job(1, tiny)], {"run-1": (8, state)}
    for reserve in (False, True):
        found = train(jobs, enter=enter, reserve=reserve)
        assert found[1].first_step == 8
        assert differing(train([jobs[1]], enter=enter)[0], found[1]) == []
        assert differing(train([jobs[0]])[0], found[0]) == []


def kept(updates, plan):
    return dataclasses.replace(updates, kept_N=torch.ones(1, dtype=torch.bool))


def frozen(updates, plan):
    reaches = torch.ones(1, plan.size, dtype=torch.bool)
    reaches[:, : plan.size // 2] = False
    return dataclasses.replace(updates, reaches_NP=reaches)


def halved(parametrization, plan):
    return parametrization.scaled(torch.arange(plan.size // 3), 0.5, plan.size)


FP16 = {"precision__format": Format.FP16, "precision__loss_scale": 2.0**17, "precision__dynamic": True}
CASES = {
    "healthy": ({}, ()),
    "fp16 dynamic": (FP16, ()),
    "SGD": ({"optimizer__kind": OptimizerKind.SGD}, ()),
    "BatchNorm": ({"model__norm": Norm.BATCH}, ()),
    "average, fresh rows": ({"evaluation__average": 0.9, "evaluation__fresh": True}, ()),
    "dropout": ({"dropout": 0.2}, ()),
    "coupled decay, clipped updates": ({"optimizer__coupled": True, "optimizer__update_clip": 0.5}, ()),
    "gradients kept": ({}, (At(0, UpdateEdit(kept)),)),
    "half frozen": ({}, (At(0, UpdateEdit(frozen)),)),
    "parametrized": ({}, (At(0, ParametrizationEdit(halved)),)),
}  # fmt: skip
OTHER = {
    "optimizer__lr": 0.02, "optimizer__beta1": 0.5, "optimizer__beta2": 0.8, "optimizer__eps": 1e-3,
    "optimizer__weight_decay": 0.3, "optimizer__clip": 0.1, "data__language_seed": 5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "captured"),
    [(case, captured) for case in CASES for captured in (False, True) if (case, captured) != ("dropout", True)],
)
def test_a_row_written_over_is_the_run(case, captured, tiny, make_job, equal_states, noted):
    values, changes = CASES[case]
    setup = replaced(tiny, **values)
    first = [make_job(0, setup, *changes), make_job(1, setup, *changes)]
    third = make_job(2, replaced(setup, **OTHER), *changes, At(5, NO_SCORES))
    at = train([third], keep={"run-2": [6]}, stop=7)[0].states[6]
    bundle, alone = Bundle(first, [fresh_state(job) for job in first], 0), Bundle([third], [at], 6)
    if captured:
        bundle.captured = CapturedStep(bundle, noted)
    run_block(bundle, range(6), True)
    before = {name: value.data_ptr() for name, value in bundle.rows().items()}
    bundle.overwrite(1, third, at, 6)
    assert {name: value.data_ptr() for name, value in bundle.rows().items()} == before
    (_, found), losses = run_block(bundle, range(6, 14), True)
    (expected,), other = run_block(alone, range(6, 14), True)
    assert [name for name in expected if not np.array_equal(expected[name], found[name], equal_nan=True)] == []
    assert all(np.array_equal(other[step][0], losses[step][1], equal_nan=True) for step in other)
    assert equal_states(alone.states()[0], bundle.states()[1])
    if captured:
        assert bundle.captured.graph.done.count("capture") == 1
        assert bundle.captured.graph.done.count("replay") == 14 - WARM_UP
