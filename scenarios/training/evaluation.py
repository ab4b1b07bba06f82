"""Losses of a bundle on its held-out rows."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.random import generator, sent
from trainwreck.models import gpt
from trainwreck.models.loss import weighted_mean
from trainwreck.scenarios.training.bundle import Bundle, HeldOut


def sampled(bundle: Bundle, step: int, weights: Tensor) -> Tensor:
    """Weights of the held-out tokens, [N, B, T], with 0 for rows that an evaluation's sample leaves out."""
    samples = [s.setup.evaluation.sample for s in bundle.segments]
    if not any(samples) or step == bundle.setup.steps - 1:
        return weights
    rows = np.ones(weights.shape[:2], bool)
    for row, job, sample in zip(rows, bundle.jobs, samples, strict=True):
        if sample:
            row[generator(job.seed, "evaluation", step).permutation(len(row))[sample:]] = False
    return torch.where(sent(rows, bundle.device).unsqueeze(2), weights, 0.0)


@torch.no_grad()
def validate(bundle: Bundle, step: int = 0, held_out: HeldOut | None = None, raw: bool = False) -> Tensor:
    """Mean loss on the held-out rows, or on others, [N]. raw: of the weights themselves, average or not."""
    held_out = held_out or bundle.held_out
    parts = held_out_logits(bundle, step, held_out, raw)
    nll = torch.cat([bundle.token_losses(logits, targets).nll_NM for logits, targets in parts], 1)
    return weighted_mean(nll, sampled(bundle, step, held_out[2]).flatten(1))


def held_out_logits(
    bundle: Bundle, step: int = 0, held_out: HeldOut | None = None, raw: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits [N, M, V] and targets [N, M] of the held-out rows, as many rows at a time as a batch has."""
    inputs, targets, _, documents = held_out or bundle.held_out
    rows = bundle.setup.data.rows
    for a in range(0, inputs.shape[1], rows):
        part = slice(a, a + rows)
        model = evaluated(bundle, step, a, raw)
        yield gpt.forward(model, inputs[:, part], documents[:, part]), targets[:, part].flatten(1)


def evaluated(bundle: Bundle, step: int, first: int = 0, raw: bool = False) -> gpt.Model:
    """The model that held-out rows are evaluated with, those from row `first` on. raw: never the average."""
    dropout, average = bundle.program.evaluated
    params = bundle.parameters()
    if average and bundle.average is not None and not raw:
        params = bundle.plan.views(bundle.parametrization.apply(bundle.average))
    running = None if bundle.running is None else dataclasses.replace(bundle.running, training=False)
    float8 = None if bundle.float8 is None else dataclasses.replace(bundle.float8, training=False)
    draws = bundle.dropout(step, f"dropout/evaluation/{first}") if dropout else None
    return bundle.model(params, step, running, draws, float8=float8)
