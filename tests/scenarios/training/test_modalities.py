"""The objective of two modalities: its losses and gradients against plain autograd, its signals, its state."""

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import MODALITIES
from trainwreck.evaluation.errors import InputError
from trainwreck.models import gpt
from trainwreck.scenarios.catalogue.look_alikes.benign_modality_weights import Less
from trainwreck.scenarios.catalogue.modalities.multimodal_loss_imbalance import Weight
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import ILLUSTRATES
from trainwreck.scenarios.config.settings import Dialect, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import fresh, validation
from trainwreck.scenarios.data.sources.captions import PICTURE
from trainwreck.scenarios.spec.faults import At, Setting
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import modalities

OTHER = {
    "model.causal": False, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT, "distributed.ranks": 2,
    "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def setup():
    base = bases.captions(healthy(Size.MICRO))
    return replaced(base, steps=12, evaluation__every=5, evaluation__rows=6, data__rows=4, schedule__warmup_steps=3)


@pytest.mark.parametrize("path", ILLUSTRATES)
def test_what_rows_cannot_be_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == ILLUSTRATES.keys()
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=modalities; allowed: "):
        check(replace(setup, path, OTHER[path]))


@pytest.mark.parametrize(
    ("name", "knobs"), [("multimodal_loss_imbalance", Weight()), ("benign_modality_weights", Less())]
)
def test_its_faults_need_it(name, knobs, tiny):
    with pytest.raises(
        InputError, match=r"^objective: 'next_token' is not allowed for this fault; allowed: 'modalities'"
    ):
        scenario(name).fault(knobs, tiny)


@pytest.mark.parametrize("weight", [1.0, 0.5, float("nan"), float("inf")])
def test_a_weight_that_favours_no_picture_is_refused(weight):
    with pytest.raises(ValueError, match=rf"^fault\.weight: {weight} is not allowed; allowed: over 1$"):
        Weight(weight=weight)


def chances(bundle, batch, weights):
    """-ln p of each target [B, T], in the plainest way, of the weights by name."""
    inputs, documents = (torch.tensor(np.array(part))[None] for part in (batch.inputs, batch.documents))
    logits = gpt.forward(bundle.model(weights, 0, None), inputs, documents)[0]
    targets = torch.tensor(np.array(batch.targets)).flatten()
    return -torch.log_softmax(logits.flatten(0, -2), -1)[torch.arange(len(targets)), targets].view(batch.targets.shape)


@pytest.mark.parametrize("weight", [1.0, 40.0, 0.0])
def test_the_loss_and_its_gradient_are_those_of_plain_autograd(setup, make_job, weight):
    job = make_job(3, replaced(setup, modalities__picture_weight=weight))
    bundle = Bundle([job], [fresh_state(job)], 0)
    block = bundle.inputs(range(1))
    found = modalities.losses(bundle, block, 0, 0, None)
    own = {name: leaf.detach().clone().requires_grad_() for name, leaf in bundle.parameters().items()}
    batch = [getattr(block, name)[0, 0].numpy() for name in ("inputs", "targets", "weights", "documents")]
    batch = type(validation(setup)[0])(*(part.reshape(4, 32) for part in batch))
    nll = chances(bundle, batch, own)
    total, counts = 0.0, 0.0
    for row in range(4):
        for place in range(32):
            if batch.weights[row, place]:
                counted = weight if batch.targets[row, place] < PICTURE else 1.0
                total, counts = total + counted * nll[row, place], counts + counted
    plain = total / counts
    assert float(found.loss.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    assert torch.equal(found.loss, found.objective)
    wanted = torch.autograd.grad(plain, own.values())
    had = torch.autograd.grad(found.objective.sum(), bundle.leaves.values())
    for name, one, other in zip(own, had, wanted, strict=True):
        assert one.flatten().numpy() == pytest.approx(other.flatten().numpy(), abs=2e-6), name


def test_held_out_losses_are_of_both_and_of_each_without_weights(setup, make_job):
    job = make_job(3, replaced(setup, modalities__picture_weight=40.0, evaluation__fresh=True))
    bundle = Bundle([job], [fresh_state(job)], 0)
    bundle.flat.add_(0.05 * torch.randn(bundle.flat.shape, generator=torch.Generator().manual_seed(1)))
    found = {name: float(value) for name, value in modalities.evaluate(bundle, 5).items()}
    batch, _ = validation(job.setup)
    nll = chances(bundle, batch, bundle.parameters()).detach().numpy()
    scored, picture = batch.weights > 0, batch.targets < PICTURE
    assert found["validation_loss"] == pytest.approx(nll[scored].mean(), abs=1e-5)
    assert found["picture_loss"] == pytest.approx(nll[scored & picture].mean(), abs=1e-5)
    assert found["caption_loss"] == pytest.approx(nll[scored & ~picture].mean(), abs=1e-5)
    assert found["picture_loss"] != pytest.approx(found["caption_loss"], abs=0.01)
    batch = fresh(job.setup)
    nll = chances(bundle, batch, bundle.parameters()).detach().numpy()
    assert found["fresh_loss"] == pytest.approx(nll[batch.weights > 0].mean(), abs=1e-5)


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, train_together_and_alone):
    heavy = At(4, Setting("modalities.picture_weight", 200.0))
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, heavy, name="heavy")]
    jobs.append(make_job(5, replaced(setup, data__language_seed=7, modalities__picture_weight=0.2)))
    together = train_together_and_alone(jobs, 12)
    healthy_run, heavy_run = together[0].trace, together[2].trace
    assert np.array_equal(healthy_run["loss"][:4], heavy_run["loss"][:4])
    assert healthy_run["loss"][4] != heavy_run["loss"][4]


def test_a_weight_of_one_trains_as_the_next_token_does(setup, make_job):
    bundle = Bundle([make_job(3, setup)], [fresh_state(make_job(3, setup))], 0)
    block = bundle.inputs(range(1))
    ours = modalities.losses(bundle, block, 0, 0, None)
    theirs = modalities.next_token.losses(bundle, block, 0, 0, None)
    assert torch.equal(ours.objective, theirs.objective)


def test_signals_are_known_at_evaluated_steps_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in MODALITIES:
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
        assert np.isnan(other[name]).all(), name


def test_rows_that_an_evaluation_leaves_out_are_in_none_of_the_losses(setup, make_job):
    whole, part = (train([make_job(3, replaced(setup, evaluation__sample=count))])[0].trace for count in (0, 2))
    for name in ("validation_loss", *MODALITIES):
        assert whole[name][0] != part[name][0], name
        assert whole[name][11] == part[name][11], name  # the last evaluation has all rows
