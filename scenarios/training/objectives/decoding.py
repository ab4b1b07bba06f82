"""Rows that the model goes on with by itself: trained on true tokens or on its own, evaluated on its own.

Free-running, the model reads what it has drawn from its own distribution; teacher-forced, the row's true tokens. Both
losses are of the true tokens. Where a row has one right continuation, free-running is above teacher-forced by what a
token that was drawn wrong costs those after it, and by nothing else while the cache is right.

Shapes: N runs, B rows, T positions, P given tokens, W = T + 1 - P tokens to write, V vocabulary.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.random import generator, sent
from trainwreck.models import gpt
from trainwreck.models.decoding.decode import drawn, read, write
from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.data.sources.refrain import VERSE
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import evaluated, held_out_logits, sampled
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives import next_token
from trainwreck.scenarios.training.objectives.losses import Losses


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """The next token of rows, of which the model reads its own in part."""
    if not bundle.program.scheduled_sampling:
        return next_token.losses(bundle, block, index, step, probe)
    return next_token.losses(bundle, block, index, step, probe, _with_own(bundle, block, index, step))


@torch.no_grad()
def _with_own(bundle: Bundle, block: Inputs, index: int, step: int) -> Tensor:
    """Inputs [N, B, T] in which tokens to be written are, in part, drawn from what the model says where it reads none.

    One pass for all places (Mihaylova and Martins 2019): each is drawn after the true tokens before it.
    """
    inputs = block.inputs[index]
    n, b, t = inputs.shape
    drawn_by_run = [generator(job.seed, "own_tokens", step).random((2, b, t)) for job in bundle.jobs]
    draws = sent(np.stack(drawn_by_run), bundle.device)
    model = bundle.model(bundle.parameters(), step, bundle.running)
    logits = gpt.forward(model, inputs, block.documents[index])
    token = drawn(logits, draws[:, 0].flatten(1)).view(n, b, t)
    token = torch.cat((inputs[..., :1], token[..., :-1]), 2)  # what follows a place is read at the next one
    own = draws[:, 1] < bundle.scheduled_sampling.view(-1, 1, 1)
    own[..., :VERSE] = False
    return torch.where(own, token, inputs)


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Losses of held-out rows, free-running and teacher-forced, and how far the cache is off, each [N]."""
    found = _free_running(bundle, step, bundle.held_out)
    found |= _teacher_forced(bundle, step)
    if bundle.fresh is not None:
        found["fresh_loss"] = _free_running(bundle, step, bundle.fresh)["validation_loss"]
    return found


def _free_running(bundle: Bundle, step: int, held_out: HeldOut) -> dict[str, Tensor]:
    inputs, targets, weights, documents = held_out
    n, b, t = inputs.shape
    given, truth = inputs[:, :, :VERSE], targets[:, :, VERSE - 1 :]
    weights = sampled(bundle, step, weights)[:, :, VERSE - 1 :]
    count = truth.shape[2]
    draws = sent(np.stack([_draws_of_writing(job.seed, (b, count)) for job in bundle.jobs]), bundle.device)
    prefix = None if bundle.cached is None else bundle.plan.views(bundle.parametrization.apply(bundle.cached))
    model = evaluated(bundle, step)
    written, logits = write(model, given, draws, prefix)

    def nll(tokens_NBW: Tensor, logits_NBWV: Tensor) -> Tensor:
        flat = logits_NBWV.reshape(n, b * count, -1)
        return bundle.token_losses(flat, tokens_NBW.reshape(n, -1)).nll_NM.view(n, b, count)

    truly, own = nll(truth, logits), nll(written, logits)
    whole = torch.cat((given, written[:, :, :-1]), 2)
    at_once = nll(written, gpt.forward(model, whole, documents).view(n, b, t, -1)[:, :, VERSE - 1 :])
    beside = nll(written.flip(1), read(model, given.flip(1), written.flip(1), prefix)).flip(1)
    first, last = _quarters(count)

    def mean(value: Tensor, part: slice) -> Tensor:
        return weighted_mean(value[:, :, part].flatten(1), weights[:, :, part].flatten(1))

    every = slice(None)
    return {
        "validation_loss": mean(truly, every),
        "free_first_loss": mean(truly, slice(0, 1)),
        "free_early_loss": mean(truly, first),
        "free_late_loss": mean(truly, last),
        "cache_gap": mean((own - at_once).abs(), every),
        "neighbour_gap": mean((own - beside).abs(), every),
    }


def _teacher_forced(bundle: Bundle, step: int) -> dict[str, Tensor]:
    _, _, weights, _ = bundle.held_out
    n, b, t = weights.shape
    parts = held_out_logits(bundle, step)
    nll = torch.cat([bundle.token_losses(logits, targets).nll_NM for logits, targets in parts], 1).view(n, b, t)
    weights = sampled(bundle, step, weights)
    _, last = _quarters(t + 1 - VERSE)
    late = slice(VERSE - 1 + last.start, None)
    return {
        "forced_loss": weighted_mean(nll.flatten(1), weights.flatten(1)),
        "forced_late_loss": weighted_mean(nll[:, :, late].flatten(1), weights[:, :, late].flatten(1)),
    }


def _quarters(count: int) -> tuple[slice, slice]:
    """The first and the last quarter of so many tokens."""
    return slice(0, count // 4), slice(count - count // 4, count)


@lru_cache(maxsize=64)
def _draws_of_writing(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """The same at every evaluation, so that its losses differ by the weights alone."""
    return generator(seed, "written", 0).random(shape)
