"""Runs of an objective of their own: what is refused, what they record, and that they are runs like any other."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import DECODING
from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models.config import Format, Norm
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import DECODES, DENOISES, ObjectiveKind
from trainwreck.scenarios.config.settings import Dialect, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.data.sources.refrain import VERSE
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import decoding
from trainwreck.scenarios.training.objectives.choose import objective

OTHER = {
    "data.dialect": Dialect.CHAT, "model.norm": Norm.BATCH, "model.attention": "fp16_scores",
    "model.causal": False,
    "precision.format": Format.FP8, "dropout": 0.1, "distributed.ranks": 2, "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def setup():
    base = bases.refrain(healthy(Size.MICRO))
    return replaced(base, steps=12, evaluation__every=5, evaluation__rows=6, data__rows=4, schedule__warmup_steps=3)


@pytest.mark.parametrize(
    ("path", "value", "default"),
    [
        ("decoding.scheduled_sampling", 0.3, 0.0), ("decoding.flush", False, True),
        ("diffusion.emphasis", 2.0, 0.0),
    ],
)  # fmt: skip
def test_settings_of_another_objective_are_refused_and_the_way_out_is_named(path, value, default, tiny):
    with pytest.raises(InputError) as error:
        check(replace(tiny, path, value))
    assert str(error.value) == (
        f"{path}: {value!r} is not allowed with objective=next_token, which has no settings of its own; "
        f"allowed: {default!r}, or objective={path.split('.')[0]}"
    )


def test_a_next_token_that_can_be_read_is_refused(tiny):
    with pytest.raises(InputError) as error:
        check(replace(tiny, "model.causal", False))
    assert str(error.value) == "model.causal: False is not allowed with objective=next_token; allowed: True"


NOT_DENOISED = {
    "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAIN, "data.padding_every": 3, "model.causal": True,
    "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip


@pytest.mark.parametrize("path", DENOISES)
def test_what_a_denoiser_does_not_know_is_refused(path):
    setup = bases.denoiser(healthy(Size.MICRO))
    check(setup)
    assert NOT_DENOISED.keys() == DENOISES.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=diffusion; allowed: "):
        check(replace(setup, path, NOT_DENOISED[path]))


@pytest.mark.parametrize("path", DECODES)
def test_what_the_cache_does_not_know_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == DECODES.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=decoding; allowed: "):
        check(replace(setup, path, OTHER[path]))


def test_every_objective_has_a_module_with_what_the_loop_asks_for():
    for kind in ObjectiveKind:
        found = objective(kind)
        assert callable(found.losses)
        assert callable(found.evaluate)


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, differing, train_together_and_alone):
    stale = At(4, Setting("decoding.flush", False))
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, stale, name="stale")]
    jobs.append(make_job(5, replaced(setup, decoding__scheduled_sampling=0.0)))
    together = train_together_and_alone(jobs, 12)
    assert set(differing(together[0], together[2])) == {
        "validation_loss", "free_first_loss", "free_early_loss", "free_late_loss", "cache_gap",
    }  # fmt: skip
    assert "loss" in differing(together[0], train([make_job(3, replaced(setup, decoding__scheduled_sampling=0.2))])[0])


def test_a_run_that_is_entered_goes_on_with_what_it_has_cached(setup, make_job, differing):
    job = make_job(3, setup, At(4, Setting("decoding.flush", False)))
    whole = train([job], keep={job.run_id: [7]})[0]
    state = whole.states[7]
    assert "cached" in state
    assert not torch.equal(state["cached"], state["parameters"])
    entered = train([job], enter={job.run_id: (7, state)})[0]
    for name, values in entered.trace.signals.items():
        assert np.array_equal(values, whole.trace[name][7:], equal_nan=True), name


def test_signals_are_known_at_evaluated_steps_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in DECODING:
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
        assert np.isnan(other[name]).all(), name
    assert trace["cache_gap"][trace.evaluated].max() < 1e-4
    assert trace["neighbour_gap"][trace.evaluated].max() < 1e-4
    assert np.isfinite(other["validation_loss"]).any()


def test_the_losses_are_those_of_a_loop_over_tokens(setup, make_job):
    job = make_job(3, setup)
    bundle = Bundle([job], [fresh_state(job)], 0)
    bundle.flat.mul_(4)  # so that tokens matter
    found = {name: float(value) for name, value in decoding.evaluate(bundle, 0).items()}
    rows, _ = validation(setup)
    given, truth = torch.from_numpy(rows.inputs[:, :VERSE])[None], torch.from_numpy(rows.targets)
    draws = generator(3, "written", 0).random((6, 32 + 1 - VERSE))
    text, free = given.clone(), []
    for i in range(32 + 1 - VERSE):  # the whole text is read for each token
        padded = torch.nn.functional.pad(text, (0, 32 - text.shape[2]))
        logits = decoding.gpt.forward(bundle.model(bundle.parameters(), 0, None), padded, 0 * padded)
        chances = torch.softmax(logits.detach().view(6, 32, -1)[:, text.shape[2] - 1], -1)
        free.append(-torch.log(chances[torch.arange(6), truth[:, VERSE - 1 + i]]))
        token = (chances.cumsum(-1) < torch.from_numpy(draws[:, i]).float()[:, None]).sum(-1)
        text = torch.cat((text, token.view(1, 6, 1)), 2) if i < 32 - VERSE else text
    free = torch.stack(free, 1)
    assert found["validation_loss"] == pytest.approx(float(free.mean()), abs=1e-4)
    assert found["free_first_loss"] == pytest.approx(float(free[:, 0].mean()), abs=1e-4)
    assert found["free_early_loss"] == pytest.approx(float(free[:, :6].mean()), abs=1e-4)
    assert found["free_late_loss"] == pytest.approx(float(free[:, -6:].mean()), abs=1e-4)
    true = torch.from_numpy(rows.inputs)[None]
    logits = decoding.gpt.forward(bundle.model(bundle.parameters(), 0, None), true, 0 * true).detach()[0]
    forced = torch.nn.functional.cross_entropy(logits, truth.flatten(), reduction="none").view(6, 32)
    assert found["forced_loss"] == pytest.approx(float(forced[:, VERSE - 1 :].mean()), abs=1e-4)
    assert found["forced_late_loss"] == pytest.approx(float(forced[:, -6:].mean()), abs=1e-4)


def test_training_reads_as_many_of_its_own_tokens_as_it_is_told(setup, make_job):
    for share in (0.0, 0.25, 1.0):
        job = make_job(3, replaced(setup, decoding__scheduled_sampling=share, data__rows=64))
        bundle = Bundle([job], [fresh_state(job)], 0)
        block = bundle.inputs(range(1))
        read = decoding._with_own(bundle, block, 0, 0)
        other = (read != block.inputs[0]).float()
        assert not other[..., :VERSE].any()
        assert float(other[..., VERSE:].mean()) == pytest.approx(share * 63 / 64, abs=0.05)  # it may guess right
