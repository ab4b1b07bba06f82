"""Runs that fill in masked tokens: what they read, what is evaluated, and that they are runs like any other."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import DENOISING
from trainwreck.kernels.random import generator
from trainwreck.models import gpt
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import validation as held_out
from trainwreck.scenarios.data.sources.selection import source, source_key
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import diffusion


@pytest.fixture(scope="module")
def setup():
    base = bases.denoiser(healthy(Size.MICRO))
    return replaced(base, steps=12, evaluation__every=5, evaluation__rows=9, data__rows=4, schedule__warmup_steps=3)


@pytest.fixture
def bundle(setup, make_job):
    job = make_job(3, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    bundle.flat.mul_(4)  # so that tokens matter
    return bundle


def logits_of(bundle, tokens, documents=None, raw=True):
    documents = np.zeros_like(tokens) if documents is None else documents
    model = diffusion.evaluated(bundle, 0, raw=raw)
    found = gpt.forward(model, torch.from_numpy(tokens)[None], torch.from_numpy(documents)[None])
    return found.detach().view(*tokens.shape, -1)


def test_a_token_sees_all_of_its_document_and_nothing_else(bundle):
    bundle.flat.div_(4)  # no attention is so sharp that a token is left out
    tokens = np.random.default_rng(0).integers(0, 12, (2, 16))
    documents = np.repeat([[0] * 8 + [1] * 8], 2, 0)
    changed = tokens.copy()
    changed[:, 6] = 12
    moved = (logits_of(bundle, tokens, documents) != logits_of(bundle, changed, documents)).any(-1).numpy()
    assert moved[:, :8].all()
    assert not moved[:, 8:].any()


def test_the_evaluated_signals_are_those_of_loops(bundle, setup):
    bundle.average.mul_(0.5)
    found = {name: float(value) for name, value in diffusion.evaluate(bundle, 0).items()}
    batch, _ = held_out(setup)
    for raw, name in ((False, "validation_loss"), (True, "raw_loss")):
        logits = logits_of(bundle, batch.inputs, raw=raw)
        nll = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.from_numpy(batch.targets).flatten(), reduction="none"
        ).view(9, 16)
        rows = [float(nll[i][batch.inputs[i] == 63].mean()) for i in range(9)]
        assert found[name] == pytest.approx(np.mean(rows), abs=1e-5)
        if not raw:
            for part, values in zip(("early", "middle", "late"), np.array_split(rows, 3), strict=True):
                assert found[f"denoise_{part}"] == pytest.approx(values.mean(), abs=1e-5)
    assert found["raw_loss"] != found["validation_loss"]


def test_samples_are_those_of_a_loop_over_tokens(bundle, setup):
    sampled = diffusion.sample(bundle, 0)[0].numpy()
    batch, _ = held_out(setup)
    draws = generator(3, "sampled", 0).random((2, 9, 16))
    whole, chances, wrong = np.full((9, 16), 63), source(source_key(setup.data)).bigram, 0
    whole[:, 0] = batch.targets[:, 0]
    for row in range(9):
        for place in 1 + draws[0, row, 1:].argsort():
            logits = logits_of(bundle, whole, raw=False)[row, place, :63]
            total = torch.softmax(logits, -1).cumsum(-1)
            whole[row, place] = min(62, int((total < float(np.float32(draws[1, row, place]))).sum()))
        for before, after in zip(whole[row, :-1], whole[row, 1:], strict=True):
            wrong += before >= len(chances) or after >= 12 or chances[before, after] == 0
    assert (sampled == whole).mean() > 0.98  # a draw may lie within rounding of an edge
    mine = diffusion.violations(bundle, torch.from_numpy(whole)[None])
    assert float(mine) == pytest.approx(wrong / (9 * 15))
    assert 0 < wrong < 9 * 15


def test_true_rows_break_no_rule(bundle, setup):
    assert float(diffusion.violations(bundle, torch.from_numpy(held_out(setup)[0].targets)[None])) == 0


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, differing, train_together_and_alone):
    raw = At(4, Setting("evaluation.average", 0.0))
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, raw, name="raw")]
    jobs.append(make_job(5, replaced(setup, diffusion__emphasis=4.0)))
    together = train_together_and_alone(jobs, 12)
    assert set(differing(together[0], together[2])) == {"validation_loss", *DENOISING} - {"raw_loss"}


def test_a_run_that_is_entered_goes_on_with_its_average(setup, make_job):
    job = make_job(3, setup)
    whole = train([job], keep={job.run_id: [7]})[0]
    state = whole.states[7]
    assert not torch.equal(state["average"], state["parameters"])
    entered = train([job], enter={job.run_id: (7, state)})[0]
    for name, values in entered.trace.signals.items():
        assert np.array_equal(values, whole.trace[name][7:], equal_nan=True), name


def test_signals_are_known_at_evaluated_steps_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in DENOISING:
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
        assert np.isnan(other[name]).all(), name
    assert (trace["attention_mass_future"] == 0).all()  # nothing there is hidden
    assert np.isfinite(other["validation_loss"]).any()


def test_rows_that_an_evaluation_leaves_out_leave_out_their_timesteps(setup, make_job):
    trace = train([make_job(3, replaced(setup, evaluation__sample=1))])[0].trace
    parts = np.stack([trace[f"denoise_{part}"] for part in ("early", "middle", "late")])[:, [0, 5, 10]]
    assert (np.isfinite(parts).sum(0) == 1).all()
    assert np.nansum(parts, 0) == pytest.approx(trace["validation_loss"][[0, 5, 10]])
