"""Masked tokens, to be told from those that are left: masked diffusion (Austin et al. 2021; Sahoo et al. 2024).

Training and held-out rows come masked from `scenarios.data.masking`, with the weights of the evidence bound; the loss
of a masked token is the cross entropy of what it was. A denoiser does not get the timestep: how much is masked says it
(Ou et al. 2024). The validation loss is the bound on held-out rows. Its floor is the language's entropy, which a
denoiser reaches that has the chance of each token given those that are left.

Shapes: N runs, B rows, T positions, V vocabulary.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.random import generator, sent
from trainwreck.models import gpt
from trainwreck.models.decoding.decode import drawn
from trainwreck.models.loss import weighted_mean
from trainwreck.scenarios.data.masking import SAMPLING_STEPS
from trainwreck.scenarios.data.sources.language import Language
from trainwreck.scenarios.data.sources.selection import SourceKey, source, source_key
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.evaluation import evaluated, held_out_logits, sampled, validate
from trainwreck.scenarios.training.objectives.next_token import losses as losses  # of the tokens that are masked


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """The bound on held-out rows, the losses of masked tokens by timestep, and what is wrong in samples, each [N]."""
    inputs, _, weights, _ = bundle.held_out
    n, b, _ = inputs.shape
    parts = held_out_logits(bundle, step)
    nll = torch.cat([bundle.token_losses(logits, targets).nll_NM for logits, targets in parts], 1).view(n, b, -1)
    weights = sampled(bundle, step, weights)
    third = (torch.arange(b, device=inputs.device) * 3 // b).view(1, b, 1)  # rows are in the order of their timesteps
    by_time = [_mean(nll, weights * (third == i)) for i in range(3)]
    found = {
        "validation_loss": weighted_mean(nll.flatten(1), weights.flatten(1)),
        **dict(zip(("denoise_early", "denoise_middle", "denoise_late"), by_time, strict=True)),
        "sample_violations": violations(bundle, sample(bundle, step)),
    }
    found["raw_loss"] = found["validation_loss"] if bundle.average is None else validate(bundle, step, raw=True)
    if bundle.fresh is not None:
        found["fresh_loss"] = validate(bundle, step, bundle.fresh)
    return found


def sample(bundle: Bundle, step: int) -> Tensor:
    """Rows as long as the held-out ones, drawn by the model: int64 [N, B, T].

    All but the given tokens start masked. They are revealed in a drawn order, evenly over `SAMPLING_STEPS` steps, each
    drawn from what the model says of it at its step: the reverse process of the even schedule.
    """
    inputs, _, _, documents = bundle.held_out
    n, b, t = inputs.shape
    open_NBT = _scored(documents)
    draws = sent(np.stack([_draws_of_samples(job.seed, (2, b, t)) for job in bundle.jobs]), bundle.device)
    order = torch.where(open_NBT, draws[:, 0], 2.0).argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    turn = order * SAMPLING_STEPS // open_NBT.sum(-1, keepdim=True).clamp(min=1)
    tokens = torch.where(open_NBT, bundle.setup.model.vocab_size - 1, inputs)
    model = evaluated(bundle, step)
    for now in range(SAMPLING_STEPS):
        logits = gpt.forward(model, tokens, documents)
        logits[..., -1] = -torch.inf  # no token is a mask
        revealed = drawn(logits, draws[:, 1].flatten(1)).view(n, b, t)
        tokens = torch.where(open_NBT & (turn == now), revealed, tokens)
    return tokens


def violations(bundle: Bundle, tokens_NBT: Tensor) -> Tensor:
    """Share of the tokens that the language never has after the one before them, [N]."""
    _, _, _, documents = bundle.held_out
    n = len(tokens_NBT)
    data = [segment.setup.data for segment in bundle.segments]
    allowed = sent(np.stack([_follows(source_key(d), bundle.setup.model.vocab_size) for d in data]), bundle.device)
    before, after = tokens_NBT[..., :-1].reshape(n, -1), tokens_NBT[..., 1:].reshape(n, -1)
    run = torch.arange(n, device=bundle.device).unsqueeze(1)
    wrong = ~allowed[run, before, after]
    within = _scored(documents)[..., 1:].reshape(n, -1)
    return (wrong & within).sum(1) / within.sum(1).clamp(min=1)


def _mean(nll_NBT: Tensor, weights_NBT: Tensor) -> Tensor:
    """Mean by weight, [N]; NaN where an evaluation's sample has no such rows."""
    mean = weighted_mean(nll_NBT.flatten(1), weights_NBT.flatten(1))
    return torch.where(weights_NBT.flatten(1).sum(1) > 0, mean, torch.nan)


def _scored(documents_NBT: Tensor) -> Tensor:
    """`data.masking.scored` on the device."""
    inner = torch.zeros_like(documents_NBT, dtype=torch.bool)
    inner[..., 1:] = documents_NBT[..., 1:] == documents_NBT[..., :-1]
    return inner & (documents_NBT >= 0)


@lru_cache(maxsize=16)
def _follows(key: SourceKey, table: int) -> np.ndarray:
    """Whether the language has a token [V] after another one [V], of a table of so many; bool."""
    language = source(key)
    assert isinstance(language, Language), "settings allow no other source with this objective"
    found = np.zeros((table, table), bool)
    chances = language.bigram
    found[: len(chances), : chances.shape[1]] = chances > 0
    return found


@lru_cache(maxsize=64)
def _draws_of_samples(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """The same at every evaluation, so that samples differ by the weights alone."""
    return generator(seed, "sampled", 0).random(shape)
