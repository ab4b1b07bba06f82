"""Runs on pairs of answers: the update against autograd on the paper's formula, the reference, and what is refused."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

from trainwreck.evaluation.dataset.schema import OF_OBJECTIVES, PAIRED, PREFERRED
from trainwreck.evaluation.errors import InputError
from trainwreck.models import gpt
from trainwreck.models.config import Format, Norm
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import PREFERS
from trainwreck.scenarios.config.settings import Dialect, Reduction, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block, validation
from trainwreck.scenarios.spec.faults import At, DataTransform, Setting
from trainwreck.scenarios.spec.planned import preferences_step
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import preferences

STEPS, SEED, ROWS = 16, 3, 4
OTHER = {
    "model.causal": False, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT, "data.pool": 8,
    "data.longest": 4, "data.padded": True, "data.one_token_every": 3, "data.padding_every": 3, "data.short_every": 2,
    "model.norm": Norm.BATCH, "precision.format": Format.FP8, "evaluation.sample": 2, "dropout": 0.1, "z_loss": 0.1,
    "label_smoothing": 0.1, "reduction": Reduction.SUM, "distributed.ranks": 2, "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def setup():
    base = bases.preferences(healthy(Size.MICRO))
    small = {"steps": STEPS, "evaluation__every": 5, "evaluation__rows": 6, "data__rows": ROWS}
    return replaced(base, schedule__warmup_steps=3, preferences__beta=0.3, preferences__anchor=0.7, **small)


def logp(weights, bundle, batch):
    """ln p of each row's answer, [B]: written out token by token."""
    inputs = torch.from_numpy(batch.inputs)[None]
    model = bundle.model(bundle.plan.views(weights[None]), 0, None)
    nll = cross_entropy(
        gpt.forward(model, inputs, 0 * inputs)[0], torch.from_numpy(batch.targets).flatten(), reduction="none"
    )
    rows = nll.view(len(batch.inputs), -1)
    return torch.stack(
        [-sum(x for x, w in zip(*row, strict=True) if w) for row in zip(rows, batch.weights, strict=True)]
    )


def test_a_step_is_that_of_the_formula_under_autograd(setup, make_job):
    begin, at = preferences_step(SEED, STEPS), preferences_step(SEED, STEPS) + 4
    job = make_job(SEED, setup)
    result = train([job], keep={job.run_id: [begin, at, at + 1]})[0]
    state, policy = result.states[at], result.states[at]["parameters"].clone().requires_grad_()
    assert torch.equal(state["reference"], result.states[begin]["parameters"])
    bundle = Bundle([job], [state], at)
    batch = training_block(replaced(setup, preferences__begun=True), SEED, range(at, at + 1)).at(0)
    now, then = logp(policy, bundle, batch), logp(state["reference"], bundle, batch)
    loss, margins = torch.zeros(()), []
    for right, wrong in zip(range(0, ROWS, 2), range(1, ROWS, 2), strict=True):
        margins.append((now[right] - then[right]) - (now[wrong] - then[wrong]))
        loss = loss - logsigmoid(0.3 * margins[-1]) / (ROWS / 2)
    dpo, tokens = loss, batch.weights[::2].sum()
    loss = loss + 0.7 * -now[::2].sum() / float(tokens)
    (grad,) = torch.autograd.grad(loss, policy)
    margin, moved, trace = torch.stack(margins).detach(), (now - then).detach(), result.trace
    assert trace["loss"][at] == pytest.approx(float(loss.detach()), rel=1e-5)
    assert trace["dpo_loss"][at] == pytest.approx(float(dpo.detach()), rel=1e-5)
    assert trace["margin"][at] == pytest.approx(float(margin.mean()), rel=1e-3)
    assert trace["chosen_logp"][at] == pytest.approx(float(moved[::2].mean()), rel=1e-3)
    assert trace["rejected_logp"][at] == pytest.approx(float(moved[1::2].mean()), rel=1e-3)
    assert trace["preference_accuracy"][at] == float((margin > 0).float().mean())
    assert trace["grad_norm"][at] == pytest.approx(float(grad.norm()), rel=1e-4)
    clipped = grad * min(1.0, 1.0 / float(grad.norm()))
    first = 0.9 * state["first"] + 0.1 * clipped
    torch.testing.assert_close(result.states[at + 1]["first"], first, rtol=1e-4, atol=1e-7)


def test_pairs_begin_without_a_margin_at_ln_2(setup, make_job):
    begin = preferences_step(SEED, STEPS)
    trace = train([make_job(SEED, setup)])[0].trace
    assert trace["dpo_loss"][begin] == pytest.approx(math.log(2))
    for name in ("margin", "chosen_logp", "rejected_logp", "preference_accuracy"):
        assert trace[name][begin] == 0.0, name
    for name in PREFERRED:
        assert np.isnan(trace[name][:begin]).all(), name
        assert np.isfinite(trace[name][begin:]).all(), name
    from_the_start = train([make_job(SEED, replaced(setup, preferences__begun=True))])[0].trace
    assert from_the_start["margin"][0] == 0.0


def test_held_out_answers_are_those_of_a_loop_over_pairs(setup, make_job):
    job = make_job(SEED, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    bundle.flat.mul_(4)  # so that tokens matter
    batch, _ = validation(setup)
    found = {name: float(value) for name, value in preferences.evaluate(bundle, 0).items()}
    each = logp(bundle.flat[0], bundle, batch).detach()
    tokens = batch.weights[0].sum()
    assert found["validation_loss"] == pytest.approx(float(-each[::2].mean() / tokens), rel=1e-5)
    assert found["validation_rejected_loss"] == pytest.approx(float(-each[1::2].mean() / tokens), rel=1e-5)
    assert found["validation_accuracy"] == pytest.approx(float((each[::2] > each[1::2]).float().mean()))


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, differing, train_together_and_alone):
    setup = replaced(setup, data__rows=14)  # seven pairs, which fill no vector
    masked = At(9, DataTransform(lambda batch, since, draw: batch.__class__(
        batch.inputs, batch.targets, 0 * batch.weights, batch.documents
    ), "masked"))  # fmt: skip
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, masked, name="masked")]
    jobs += [make_job(seed, setup) for seed in range(6, 12)]
    jobs.append(make_job(5, setup, At(8, Setting("preferences.anchor", 0.0))))
    together = train_together_and_alone(jobs, STEPS)
    assert "margin" in differing(together[0], together[2])
    assert (together[2].trace["margin"][9:] == 0).all()


def test_a_run_that_is_entered_goes_on_with_its_reference(setup, make_job):
    job, step = make_job(SEED, setup), preferences_step(SEED, STEPS) + 3
    whole = train([job], keep={job.run_id: [step]})[0]
    state = whole.states[step]
    assert not torch.equal(state["reference"], state["parameters"])
    entered = train([job], enter={job.run_id: (step, state)})[0]
    for name, values in entered.trace.signals.items():
        assert np.array_equal(values, whole.trace[name][step:], equal_nan=True), name


def test_runs_of_other_objectives_have_none_of_the_signals(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in PAIRED:
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
    for name in (*OF_OBJECTIVES, *PAIRED):
        assert np.isnan(other[name]).all(), name


@pytest.mark.parametrize("path", PREFERS)
def test_what_pairs_do_not_go_with_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == PREFERS.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=preferences; allowed: "):
        check(replace(setup, path, OTHER[path]))


@pytest.mark.parametrize("path", ["data.rows", "evaluation.rows"])
def test_half_a_pair_is_refused(path, setup):
    with pytest.raises(InputError) as error:
        check(replace(setup, path, 5))
    assert str(error.value) == f"{path}: 5 is not allowed with objective=preferences; allowed: even numbers"


def test_pairs_and_their_settings_are_refused_elsewhere(tiny):
    for path, value, default in (("beta", 0.3, 0.1), ("anchor", 0.3, 1.0), ("begun", True, False)):
        with pytest.raises(InputError) as error:
            check(replace(tiny, f"preferences.{path}", value))
        assert str(error.value) == (
            f"preferences.{path}: {value!r} is not allowed with objective=next_token, "
            f"which has no settings of its own; allowed: {default!r}, or objective=preferences"
        )
    with pytest.raises(InputError) as error:
        check(replaced(tiny, data__dialect=Dialect.PAIRS))
    assert str(error.value) == (
        "data.dialect: 'pairs' is not allowed with objective=next_token; allowed: with objective=preferences"
    )
    for name in ("dpo_chosen_falls", "dpo_stuck_at_log2", "benign_hard_pairs"):
        entry = scenario(name)
        with pytest.raises(InputError, match=r"^objective: 'next_token' is not allowed for this fault; allowed: 'pref"):
            entry.fault(entry.knobs_of(entry.default_severity()), tiny)
