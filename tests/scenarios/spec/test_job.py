"""A job's segments: which changes are in force when, in which order, and what runs share a program."""

import dataclasses

import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Format, Init, Norm, OptimizerKind, Placement
from trainwreck.models.tables import healthy_tables
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.spec.faults import At, Curve, Scaled, Setting, StateEdit, TableEdit
from trainwreck.scenarios.spec.job import is_causal, leaks
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train

KEEP = StateEdit(lambda state, earlier: state, since=-2)


def masked(diagonal):
    def edit(tables, setup):
        return dataclasses.replace(tables, allowed_NTS=torch.ones_like(tables.allowed_NTS).tril(diagonal))

    return TableEdit(edit)


def test_segments_start_where_changes_do(tiny, make_job):
    job = make_job(0, tiny, At(5, Setting("optimizer.lr", 1.0)), At(5, KEEP), At(9, Setting("optimizer.lr", 2.0)))
    assert [(s.start, s.setup.optimizer.lr) for s in job.segments] == [(0, 1e-2), (5, 1.0), (9, 2.0)]
    assert [job.segment(step).start for step in (0, 4, 5, 8, 9, 19)] == [0, 0, 5, 5, 9, 9]
    assert [len(job.active(step)) for step in (0, 4, 5, 8, 9)] == [0, 0, 2, 2, 3]
    assert [len(job.resumes(step)) for step in (4, 5, 6)] == [0, 1, 0]
    assert job.snapshots() == {3}


def test_a_later_change_acts_on_what_an_earlier_one_left(tiny, make_job):
    up, down, fixed = Scaled("optimizer.lr", 8.0), Scaled("optimizer.lr", 0.25), Setting("optimizer.lr", 1.0)
    rates = [s.setup.optimizer.lr for s in make_job(0, tiny, At(2, up), At(4, down), At(6, fixed), At(6, up)).segments]
    assert rates == [1e-2, 8e-2, 2e-2, 8.0]


def test_a_change_that_ends_leaves_the_others(tiny, make_job):
    up, down = At(2, Scaled("optimizer.lr", 8.0), until=9), At(4, Scaled("optimizer.lr", 0.25))
    job = make_job(0, tiny, up, down, At(2, masked(1), until=6), At(5, masked(2), until=5))
    assert [s.start for s in job.segments] == [0, 2, 4, 5, 6, 9]
    assert [s.setup.optimizer.lr for s in job.segments] == [1e-2, 8e-2, 2e-2, 2e-2, 2e-2, 2.5e-3]
    assert [s.program.leaky for s in job.segments] == [False, True, True, True, False, False]
    assert job.past(1) == []
    assert job.past(3) == [At(2, up.change), At(2, job.changes[2].change)]
    assert job.past(9) == list(job.changes)


def test_the_learning_rate_goes_through_settings_and_then_curves(tiny, make_job):
    job = make_job(0, tiny, At(3, Curve(lambda rate, since, setup: rate + since)), At(5, Scaled("optimizer.lr", 2.0)))
    plain = [learning_rate(tiny, step) for step in range(tiny.steps)]
    assert [job.learning_rate(step) for step in (2, 3, 4)] == [plain[2], plain[3], plain[4] + 1]
    assert job.learning_rate(7) == learning_rate(replaced(tiny, optimizer__lr=2e-2), 7) + 4


def test_a_change_after_the_end_changes_nothing(tiny, make_job, differing):
    late = At(tiny.steps, Scaled("optimizer.lr", 9.0)), At(tiny.steps + 5, masked(1))
    twin, run = train([make_job(0, tiny), make_job(0, tiny, *late, name="late")])
    assert differing(twin, run) == []


@pytest.mark.parametrize("step", [0, 7])
def test_a_bad_setting_raises_before_anything_is_trained(step, tiny, make_job):
    done = []
    with pytest.raises(InputError, match=r"^optimizer\.lr: -1\.0 is not allowed"):
        train([make_job(0, tiny, At(step, Setting("optimizer.lr", -1.0)))], progress=done.append)
    assert done == []


@pytest.mark.parametrize(
    ("edit", "leaky"),
    [
        (lambda t: {}, False),
        (lambda t: {"allowed_NTS": t.allowed_NTS.tril(0)}, False),
        (lambda t: {"allowed_NTS": t.allowed_NTS & ~torch.ones_like(t.allowed_NTS).tril(-5)}, False),  # a window
        (lambda t: {"scale_N": t.scale_N * 0}, False),
        (lambda t: {"allowed_NTS": torch.ones_like(t.allowed_NTS)}, True),
        (lambda t: {"allowed_NTS": torch.ones_like(t.allowed_NTS).tril(1)}, True),
        (lambda t: {"allowed_NTS": t.allowed_NTS.tril(-1)}, True),  # nothing allowed at a document's start
        (lambda t: {"documents_N": ~t.documents_N}, True),
    ],
)
def test_leaks(edit, leaky, tiny):
    tables = healthy_tables(tiny.model, 1)
    assert leaks(dataclasses.replace(tables, **edit(tables))) is leaky


@pytest.mark.parametrize("window", [None, 1, 3])
def test_only_the_whole_causal_mask_is_causal(window, tiny):
    """A window of the last few positions leaks nothing, but no kernel may take it for the causal mask."""
    tables = healthy_tables(tiny.model, 2)
    if window is not None:
        allowed = tables.allowed_NTS.clone()
        allowed[1] = allowed[1].triu(1 - window)
        tables = dataclasses.replace(tables, allowed_NTS=allowed)
    assert not leaks(tables)
    assert is_causal(tables) == (window is None)
    assert not is_causal(dataclasses.replace(tables, documents_N=torch.tensor([True, False])))
    assert not is_causal(dataclasses.replace(tables, allowed_NTS=tables.allowed_NTS.tril(-1)))


def test_a_bundle_tells_its_tables_whether_they_are_causal(tiny, make_job):
    for diagonal in (0, 1, -1):
        job = make_job(0, tiny, At(0, masked(diagonal)))
        bundle = Bundle([job], [fresh_state(job)], 0)
        assert bundle.tables.causal == (diagonal == 0)
        ids = torch.zeros(1, 1, tiny.model.context, dtype=torch.int64)
        assert bundle.tables.mask(ids).plain == (diagonal == 0)


SHARED = {
    "optimizer.lr": 1.0, "optimizer.clip": None, "optimizer.beta2": 0.5, "schedule.warmup_steps": 1,
    "model.rope_base": 10.0, "model.init": Init(matrix_std=0.5), "data.language_seed": 3,
    "precision.growth_interval": 3, "tail": 0, "evaluation.sample": 2, "log_objective": True,
    "precision.amax_updates": False,
}  # fmt: skip
APART = {
    "model.layers": 3, "model.norm": Norm.RMS, "model.placement": Placement.POST, "model.attention": "fp16_scores",
    "model.residual_gain": 2.0, "model.norm_eps": 1e-3, "optimizer.kind": OptimizerKind.SGD, "data.rows": 3,
    "dropout": 0.1,
    "z_loss": 0.1, "precision.format": Format.BF16, "precision.dynamic": True, "precision.loss_scale": 2.0,
    "evaluation.every": 3, "evaluation.rows": 3, "steps": 7,
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "shared"), [*((*kv, True) for kv in SHARED.items()), *((*kv, False) for kv in APART.items())]
)
def test_runs_share_a_program_where_they_can(path, value, shared, tiny, make_job):
    a, b = make_job(0, tiny), make_job(1, replaced(tiny, **{path.replace(".", "__"): value}))
    assert (a.segment(0).program == b.segment(0).program) is shared


def test_runs_of_other_lengths_end_with_an_evaluation_each(tiny, make_job, differing):
    jobs = [make_job(i, replaced(tiny, steps=steps)) for i, steps in enumerate((20, 7, 12))]
    for job, result in zip(jobs, train(jobs), strict=True):
        assert len(result.trace) == job.setup.steps
        assert result.trace.evaluated[-1]
        assert differing(train([job])[0], result) == []


def test_runs_that_share_a_program_keep_their_own_values(tiny, make_job, differing):
    """Every per-run value is a tensor: in one bundle each run still trains as it does alone."""
    jobs = [make_job(i, replaced(tiny, **{path.replace(".", "__"): v})) for i, (path, v) in enumerate(SHARED.items())]
    for job, result in zip(jobs, train(jobs), strict=True):
        assert differing(train([job])[0], result) == [], job.seed
