"""The objective of transcripts: its loss and gradients against plain autograd, its signals, its frames."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from trainwreck.evaluation.dataset.schema import ALIGNED
from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import Format, Norm, Placement, Positions, Recompute
from trainwreck.models.encoding import transcriber
from trainwreck.scenarios.catalogue.data.speech_misaligned_transcripts import Late
from trainwreck.scenarios.catalogue.look_alikes.benign_hard_speakers import Mumbled
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.objectives import TRANSCRIBES, ObjectiveKind
from trainwreck.scenarios.config.settings import Dialect, Reduction, SourceKind, check, replace, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data import frames
from trainwreck.scenarios.data.batch import from_rows
from trainwreck.scenarios.data.batches import entropy_floor, validation
from trainwreck.scenarios.data.sources.speech import SOUNDS, START, WORDS, Speech
from trainwreck.scenarios.spec.faults import At, Setting, UpdateEdit
from trainwreck.scenarios.spec.registry import scenario
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.loop import fresh_state, train
from trainwreck.scenarios.training.objectives import transcription

OTHER = {
    "model.causal": False, "model.positions": Positions.ROTARY, "model.placement": Placement.POST,
    "model.norm": Norm.BATCH, "model.attention": "fp16_scores", "model.experts": 2,
    "model.recompute": Recompute.SAME_MASKS, "data.source": SourceKind.TEXT, "data.dialect": Dialect.CHAT,
    "data.padded": True, "data.one_token_every": 5, "data.padding_every": 5, "data.short_every": 2,
    "precision.format": Format.BF16, "dropout": 0.1, "evaluation.dropout": True, "z_loss": 0.1,
    "reduction": Reduction.SUM, "distributed.ranks": 2, "growth.rows": 128, "adapters.rank": 4,
}  # fmt: skip
OF_THE_MODEL = ("model.placement", "model.experts")  # with an encoder they are refused by the model itself
FRAMES, SAID = 22, 10  # of a row


@pytest.fixture(scope="module")
def setup():
    base = bases.transcripts(healthy(Size.MICRO))
    return replaced(base, steps=12, evaluation__every=5, evaluation__rows=6, data__rows=4, schedule__warmup_steps=3)


@pytest.mark.parametrize("path", TRANSCRIBES)
def test_what_rows_cannot_be_is_refused(path, setup):
    check(setup)
    assert OTHER.keys() == TRANSCRIBES.keys()
    if path in OF_THE_MODEL:
        with pytest.raises((InputError, ValueError), match=r"model\.encoder_layers: 1 is not allowed with experts or"):
            check(replace(setup, path, OTHER[path]))
        return
    with pytest.raises(InputError, match=rf"^{path}: .* is not allowed with objective=transcription; allowed: "):
        check(replace(setup, path, OTHER[path]))


def test_an_encoder_is_this_objectives_alone(setup, tiny):
    with pytest.raises(InputError, match=r"^model\.encoder_layers: 0 is not allowed with objective=transcription; "):
        check(replaced(setup, model__encoder_layers=0))
    with pytest.raises(
        InputError,
        match=r"^model\.encoder_layers: 2 is not allowed with objective=next_token; allowed: 0, or objective=transcr",
    ):
        check(replaced(tiny, model__encoder_layers=2))


def test_its_faults_need_it(tiny):
    with pytest.raises(InputError, match=r"^objective: 'next_token' is not allowed for this fault; allowed: 'transc"):
        scenario("speech_misaligned_transcripts").fault(Late(), tiny)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"rows": 0.0}, r"^fault\.rows: 0\.0 is not allowed; allowed: over 0, up to 1$"),
        ({"rows": math.nan}, r"^fault\.rows: nan is not allowed"),
        ({"words": 0}, r"^fault\.words: 0 is not allowed; allowed: 1 or more$"),
    ],
)
def test_late_transcripts_that_are_none_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        Late(**knobs)


def test_speakers_who_are_hard_to_hear_change_frames_for_a_while(setup):
    batch = from_rows(Speech(3).sample(5, "train", range(1), 64, 32)).at(0)
    (change,) = scenario("benign_hard_speakers").fault(Mumbled(frames=0.8, steps=12), setup)
    noisy = change.transform(batch, 11, np.random.default_rng(1))
    frames = (batch.inputs >= WORDS) & (batch.inputs < START)
    assert frames.any()
    assert ((noisy.inputs >= WORDS) & (noisy.inputs < START) == frames).all()
    assert (noisy.inputs == batch.inputs)[~frames].all()
    units = START - WORDS
    changed = (noisy.inputs != batch.inputs)[frames].mean()
    assert abs(changed - 0.8 * (1 - 1 / units)) < 0.05  # a drawn unit may be the one that was said
    assert np.unique(noisy.inputs[frames]).size == units
    for name in ("targets", "weights", "documents"):
        np.testing.assert_array_equal(getattr(noisy, name), getattr(batch, name))
    assert change.transform(batch, 12, np.random.default_rng(1)) is batch


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"frames": 0.0}, r"^fault\.frames: 0\.0 is not allowed; allowed: over 0, up to 1$"),
        ({"frames": math.nan}, r"^fault\.frames: nan is not allowed"),
        ({"steps": 0}, r"^fault\.steps: 0 is not allowed; allowed: 1 or more$"),
    ],
)
def test_hard_speakers_that_are_none_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        Mumbled(**knobs)


def test_a_late_transcript_ends_in_the_words_of_the_row_before(setup):
    batch = from_rows(Speech(3).sample(5, "train", range(1), 6, 32)).at(0)
    (change,) = scenario("speech_misaligned_transcripts").fault(Late(rows=1.0, words=4), setup)
    wrong = change.transform(batch, 0, np.random.default_rng(1))
    before, after = batch.targets[:, FRAMES:], wrong.targets[:, FRAMES:]
    for row in range(6):
        assert after[row].tolist() == [*before[row, 4:].tolist(), *before[row - 1, :4].tolist()]
    assert np.array_equal(wrong.inputs[:, : FRAMES + 1], batch.inputs[:, : FRAMES + 1])  # frames, and the start
    assert np.array_equal(wrong.inputs[:, FRAMES + 1 :], after[:, :-1])
    assert np.array_equal(wrong.weights, batch.weights)


def plainly_emitted(ids, noise, seed):
    """Features [B, S, C], frame by frame."""
    means = frames.unit_means(seed, noise.shape[2])
    found = np.array(noise)
    for row, units in enumerate((ids - WORDS).tolist()):
        for t, unit in enumerate(units):
            beside = means[units[max(t - 1, 0)]] + means[units[min(t + 1, len(units) - 1)]]
            found[row, t] += means[unit] + 0.15 * beside
    return found


def test_frames_are_means_with_a_trace_of_their_neighbours_and_noise():
    ids = Speech(2).sample(5, "train", range(1), 3, 32).tokens[0, :, :FRAMES]
    noise = 0.3 * frames.drawn_noise(7, 3, (3, FRAMES, 16))
    means = torch.from_numpy(np.stack([frames.unit_means(2, 16), frames.unit_means(9, 16)]))
    both = torch.from_numpy(np.stack([ids, ids]))
    found = frames.emitted(both, means, torch.from_numpy(np.stack([noise, noise])))
    for run, seed in enumerate((2, 9)):
        assert found[run].numpy() == pytest.approx(plainly_emitted(ids, noise, seed), abs=1e-5)


def test_the_noise_of_a_healthy_run_hides_no_word():
    """The nearest mean, told frame by frame without its neighbours, is that of the word: the floor is 0."""
    rows = Speech(0).sample(1, "train", range(1), 600, 32).tokens[0, :, :FRAMES]
    features = plainly_emitted(rows, 0.3 * frames.drawn_noise(1, 0, (600, FRAMES, 16)), 0)
    far = np.linalg.norm(features[:, :, None] - frames.unit_means(0, 16), axis=3)
    words = frames.words_of_units(0)
    assert (words[far.argmin(2)] == words[rows - WORDS]).all()
    for word, units in enumerate(Speech(0).units):
        assert (words[units - WORDS] == word).all()
    assert len(words) == WORDS * SOUNDS


def test_noise_is_standard_normal_and_another_one_at_each_step():
    noise = frames.drawn_noise(7, 3, (200, 5, 8))
    assert noise.mean() == pytest.approx(0, abs=0.05)
    assert noise.std() == pytest.approx(1, rel=0.05)
    assert not np.array_equal(noise, frames.drawn_noise(7, 4, (200, 5, 8)))


@pytest.mark.parametrize("counted", [4, 3])
def test_the_loss_and_its_gradient_are_those_of_plain_autograd(counted, setup, make_job):
    """counted: the rows that the gradient is of, from the first on; the loss is of all four."""
    first_rows = UpdateEdit(lambda updates, plan: dataclasses.replace(updates, rows_N=torch.tensor([counted])))
    job = make_job(3, replaced(setup, transcription__noise=0.5), *[At(0, first_rows)] * (counted < 4))
    bundle = Bundle([job], [fresh_state(job)], 0)
    block = bundle.inputs(range(2))
    found = transcription.losses(bundle, block, 1, 1, None)
    own = {name: leaf.detach().clone().requires_grad_() for name, leaf in bundle.parameters().items()}
    inputs = block.inputs[1]
    noise = 0.5 * frames.drawn_noise(3, 1, (4, FRAMES, 16))
    features = torch.from_numpy(plainly_emitted(inputs[0, :, :FRAMES].numpy(), noise, 0))[None]
    tokens = inputs[..., FRAMES:]
    logits, _ = transcriber.forward(bundle.model(own, 1, None), features, tokens, torch.zeros_like(tokens))
    targets = block.targets[1].view(4, 32)[:, FRAMES:].flatten()
    nll = -torch.log_softmax(logits[0], -1)[torch.arange(4 * SAID), targets].view(4, SAID)
    plain = nll.mean()
    assert float(found.loss.detach()) == pytest.approx(float(plain.detach()), rel=1e-5)
    assert float((found.nll.detach() * block.weights[1]).sum() / 40) == pytest.approx(float(plain.detach()), rel=1e-5)
    assert (found.nll.view(4, 32)[:, :FRAMES] == 0).all()
    assert float(found.log_z.detach().mean()) == pytest.approx(float(torch.logsumexp(logits.detach()[0], -1).mean()))
    wanted = torch.autograd.grad(nll[:counted].mean(), own.values(), allow_unused=True)
    had = torch.autograd.grad(found.objective.sum(), bundle.leaves.values())
    for name, one, other in zip(own, had, wanted, strict=True):
        assert one.flatten().numpy() == pytest.approx(other.flatten().numpy(), abs=2e-6), name


def test_alignment_is_of_the_head_with_most_on_the_true_frames():
    attention = torch.full((1, 2, 1, 2, 3, 4), 0.25)  # two layers of two heads, three words, four frames
    sharp = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.6, 0.0, 0.0, 0.4]])
    attention[0, 1, 0, 0] = sharp
    true = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)[None, None]
    found = transcription.alignment(attention, true, torch.ones(1, 1, 3))
    assert float(found["alignment_mass"]) == pytest.approx((0.9 + 1.0 + 0.4) / 3)
    entropy = -sum(p * math.log(p) for p in sharp.flatten().tolist() if p) / 3
    assert float(found["alignment_entropy"]) == pytest.approx(entropy)
    assert float(found["alignment_order"]) == 0.5  # the mean frames are 0.1, 1.5 and 1.2
    found = transcription.alignment(attention, true, torch.tensor([[[1.0, 1.0, 0.0]]]))
    assert float(found["alignment_mass"]) == pytest.approx(0.95)
    assert float(found["alignment_order"]) == 1.0


def test_held_out_rows_are_scored_under_the_noise_of_the_run(setup, make_job):
    jobs = [make_job(3, replaced(setup, transcription__noise=noise, evaluation__fresh=True)) for noise in (0.3, 0.6)]
    bundle = Bundle(jobs, [fresh_state(job) for job in jobs], 0)
    found = transcription.evaluate(bundle, 5)
    assert found["validation_loss"][0] != found["validation_loss"][1]
    assert found["fresh_loss"][0] != found["validation_loss"][0]
    batch, _ = validation(setup)
    noise = 0.3 * frames.held_out_noise(0, "validation", (6, FRAMES, 16))
    features = torch.from_numpy(plainly_emitted(batch.inputs[:, :FRAMES], noise, 0))[None].expand(2, -1, -1, -1)
    tokens = torch.from_numpy(np.array(batch.inputs[:, FRAMES:])).expand(2, -1, -1)
    model = bundle.model(bundle.parameters(), 5, None)
    logits, seen = transcriber.forward(model, features, tokens, torch.zeros_like(tokens))
    targets = torch.from_numpy(np.array(batch.targets[:, FRAMES:])).flatten()
    nll = -torch.log_softmax(logits[0], -1)[torch.arange(60), targets]
    assert float(found["validation_loss"][0]) == pytest.approx(float(nll.detach().mean()), rel=1e-5)
    words = frames.words_of_units(0)[batch.inputs[:, :FRAMES] - WORDS]
    true = words[:, None] == batch.targets[:, FRAMES:, None]
    mass = [(seen[0, i, :, h].numpy() * true).sum() / 60 for i in range(2) for h in range(4)]
    assert float(found["alignment_mass"][0]) == pytest.approx(max(mass), rel=1e-4)


def test_a_run_is_bitwise_the_same_alone_and_beside_others(setup, make_job, train_together_and_alone):
    loud = At(4, Setting("transcription.noise", 2.0))
    jobs = [make_job(3, setup), make_job(4, setup), make_job(3, setup, loud, name="loud")]
    jobs.append(make_job(5, replaced(setup, data__language_seed=7, transcription__noise=1.0)))
    together = train_together_and_alone(jobs, 12)
    healthy_run, loud_run = together[0].trace, together[2].trace
    assert np.array_equal(healthy_run["loss"][:4], loud_run["loss"][:4])
    assert healthy_run["loss"][4] != loud_run["loss"][4]


def test_signals_are_known_at_evaluated_steps_and_missing_in_other_runs(setup, tiny, make_job):
    trace, other = (result.trace for result in train([make_job(3, setup), make_job(4, tiny)]))
    for name in ALIGNED:
        assert np.array_equal(np.isfinite(trace[name]), trace.evaluated), name
        assert np.isnan(other[name]).all(), name
    assert np.isfinite(trace["row_loss_max"]).all()


def test_rows_that_an_evaluation_leaves_out_are_in_none_of_the_signals(setup, make_job):
    whole, part = (train([make_job(3, replaced(setup, evaluation__sample=count))])[0].trace for count in (0, 2))
    for name in ("validation_loss", "alignment_mass", "alignment_entropy"):
        assert whole[name][0] != part[name][0], name
        assert whole[name][11] == part[name][11], name  # the last evaluation has all rows


def test_the_floor_is_certainty(setup):
    assert setup.objective is ObjectiveKind.TRANSCRIPTION
    assert entropy_floor(setup) == 0
