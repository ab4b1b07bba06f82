"""Faulty on purpose: -log(softmax(logits)), in two steps and without a guard.

A probability under 1e-45 is 0 in float32 (over 103 nats behind the largest logit): its log is -inf, and the
gradient 1 / 0 * 0 is NaN. Plain PyTorch on every device: a variant to look at, not to run fast.
"""

import torch
from torch import Tensor

from trainwreck.kernels.attention.reference import widen
from trainwreck.kernels.cross_entropy.api import TokenLosses, check_arguments


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor, largest: bool = False) -> TokenLosses:
    """As `trainwreck.kernels.cross_entropy.cross_entropy`, but infinite where a probability is 0."""
    check_arguments(logits_NMV, targets_NM)
    logits = widen(logits_NMV)
    probs = torch.softmax(logits, -1)
    nll = -torch.log(probs.gather(-1, targets_NM.unsqueeze(-1)).squeeze(-1))
    return TokenLosses(nll, torch.logsumexp(logits, -1), logits.detach().abs().amax(-1) if largest else None)
