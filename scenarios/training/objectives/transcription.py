"""Transcripts of acoustic frames, by an encoder of frames and a decoder that attends to them.

The first positions of a row are frames, and the others its transcript (`scenarios.data.sources.speech`). Frames become
features (`scenarios.data.frames`), which the encoder alone reads; the decoder reads the transcript. The loss is that of
the next word. Which frames a word was said in is known, so it can be said how much of the cross-attention goes there.

Shapes: N runs, B rows, T positions, of which S frames and U of the transcript, C features, L layers, H heads.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainwreck.models.encoding import transcriber
from trainwreck.models.loss import smoothed, weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.data.frames import (
    drawn_noise,
    emitted,
    frames_of,
    held_out_noise,
    of_runs,
    unit_means,
    words_of_units,
)
from trainwreck.scenarios.data.sources.speech import SOUNDS, WORDS
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import evaluated, sampled
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives.losses import Losses


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """The next word of transcripts. Positions of frames have a loss of 0, and are not scored."""
    inputs, documents = block.inputs[index], block.documents[index]
    s = frames_of(bundle.setup.model.context)
    shape = inputs.shape[1], s, bundle.setup.model.frame_width
    noise = [
        drawn_noise(job.seed, step, shape) * segment.setup.transcription.noise
        for job, segment in zip(bundle.jobs, bundle.segments, strict=True)
    ]
    features = emitted(inputs[..., :s], _means(bundle), of_runs(noise, bundle.flat))
    model = bundle.model(bundle.parameters(), step, None, None, probe)
    logits, _ = transcriber.forward(model, features, inputs[..., s:], documents[..., s:])
    targets = block.targets[index].view(inputs.shape)[..., s:].flatten(1)
    nll, log_z, largest = bundle.token_losses(logits, targets, largest=probe is not None)
    value = smoothed(nll, log_z, logits, bundle.smoothing) if bundle.program.smoothed else nll
    weights = block.weights[index].view(inputs.shape)[..., s:].flatten(1)
    loss = objective = weighted_mean(value, weights)
    if bundle.updates.rows_N is not None:
        objective = weighted_mean(value, bundle.updates.counted(weights, inputs.shape[2] - s))
    none = torch.zeros_like(nll.view(*inputs.shape[:2], -1)[..., :1]).expand(-1, -1, s)

    def with_frames(x: Tensor, of_frames: Tensor) -> Tensor:
        return torch.cat((of_frames, x.view(*inputs.shape[:2], -1)), 2).flatten(1)

    return Losses(
        loss,
        objective,
        with_frames(nll, none),
        with_frames(log_z, none + log_z.mean(1).view(-1, 1, 1)),  # so that the mean is the transcript's
        None if largest is None else with_frames(largest, none),
    )


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Mean loss of held-out transcripts, and how their cross-attention is aligned, each [N]."""
    found = _heard(bundle, step, bundle.held_out, "validation")
    if bundle.fresh is not None:
        found["fresh_loss"] = _heard(bundle, step, bundle.fresh, "fresh")["validation_loss"]
    return found


def alignment(probabilities_NLBHUS: Tensor, true_NBUS: Tensor, weights_NBU: Tensor) -> dict[str, Tensor]:
    """How words are aligned by the head that has most of its attention on their own frames, each [N].

    true: bool, the frames in which each word is said. weights: of the words. `alignment_mass` is the share of the
    attention on a word's own frames, `alignment_entropy` its entropy over frames in nats, `alignment_order` the share
    of the words after the first whose mean frame is past that of the word before.
    """
    n, _, b, _, u, s = probabilities_NLBHUS.shape
    heads = probabilities_NLBHUS.transpose(2, 3).reshape(n, -1, b, u, s)
    counted = (weights_NBU > 0).to(heads.dtype)
    words = counted.sum((1, 2)).clamp(min=1)
    mass = ((heads * true_NBUS.unsqueeze(1)).sum(-1) * counted.unsqueeze(1)).sum((2, 3)) / words.unsqueeze(1)
    best = mass.argmax(1)
    head = heads[torch.arange(n, device=heads.device), best]  # [N, B, U, S]
    entropy = -torch.where(head > 0, head * head.log(), 0.0).sum(-1)
    place = (head * torch.arange(s, device=head.device)).sum(-1)
    pairs = counted[..., 1:] * counted[..., :-1]
    later = (place[..., 1:] > place[..., :-1]).to(head.dtype) * pairs
    return {
        "alignment_mass": mass.amax(1),
        "alignment_entropy": (entropy * counted).sum((1, 2)) / words,
        "alignment_order": later.sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1),
    }


def logits_of_rows(bundle: Bundle, step: int, held_out: HeldOut) -> Tensor:
    """Logits of whole rows as they are evaluated, [N, B * T, V]: 0 for all tokens at positions of frames."""
    n, b, _ = held_out[0].shape
    s = frames_of(bundle.setup.model.context)
    logits = torch.cat([part for part, _ in _transcribed(bundle, step, held_out, "validation")], 1)
    logits = logits.view(n, b, -1, logits.shape[-1])
    return torch.cat((logits.new_zeros(n, b, s, logits.shape[-1]), logits), 2).flatten(1, 2)


def _heard(bundle: Bundle, step: int, held_out: HeldOut, stream: str) -> dict[str, Tensor]:
    inputs, targets, weights, _ = held_out
    n, b, _ = inputs.shape
    s = frames_of(bundle.setup.model.context)
    parts = list(_transcribed(bundle, step, held_out, stream))
    rows = targets[..., s:].split(bundle.setup.data.rows, 1)
    nll = [bundle.token_losses(logits, words.flatten(1)).nll_NM for (logits, _), words in zip(parts, rows, strict=True)]
    weights = sampled(bundle, step, weights)[..., s:]
    spoken = _words(bundle).gather(1, (inputs[..., :s] - WORDS).clamp(0, WORDS * SOUNDS - 1).flatten(1))
    true = spoken.view(n, b, 1, s) == targets[..., s:].unsqueeze(3)
    return {
        "validation_loss": weighted_mean(torch.cat(nll, 1), weights.flatten(1)),
        **alignment(torch.cat([probabilities for _, probabilities in parts], 2), true, weights),
    }


def _transcribed(bundle: Bundle, step: int, held_out: HeldOut, stream: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits and probabilities of `transcriber.forward`, of as many rows at a time as a batch has."""
    inputs, _, _, documents = held_out
    s, rows = frames_of(bundle.setup.model.context), bundle.setup.data.rows
    shape = inputs.shape[1], s, bundle.setup.model.frame_width
    noise = [
        held_out_noise(segment.setup.data.language_seed, stream, shape) * segment.setup.transcription.noise
        for segment in bundle.segments
    ]
    features = emitted(inputs[..., :s], _means(bundle), of_runs(noise, bundle.flat))
    for first in range(0, inputs.shape[1], rows):
        part = slice(first, first + rows)
        model = evaluated(bundle, step, first)
        yield transcriber.forward(model, features[:, part], inputs[:, part, s:], documents[:, part, s:])


def _means(bundle: Bundle) -> Tensor:
    width = bundle.setup.model.frame_width
    return of_runs([unit_means(part.setup.data.language_seed, width) for part in bundle.segments], bundle.flat)


def _words(bundle: Bundle) -> Tensor:
    return of_runs([words_of_units(part.setup.data.language_seed) for part in bundle.segments], bundle.flat)
