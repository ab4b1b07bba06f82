"""Faulty on purpose: -log(softmax(logits)), in two steps, in the logits' own format and without a guard.

A probability under 3e-8 is 0 in float16 (17.3 nats), one under 1e-45 in float32 (103 nats): its log is -inf, and
the gradient 1 / 0 * 0 is NaN. Plain PyTorch on every device: a variant to look at, not to run fast.
"""

import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy.api import check_arguments
from trainwreck.kernels.cross_entropy.losses import TokenLosses
from trainwreck.kernels.dtypes import widen


def cross_entropy(logits_NMV: Tensor, targets_NM: Tensor, largest: bool = False) -> TokenLosses:
    """As `trainwreck.kernels.cross_entropy.cross_entropy`, but infinite where a probability is 0."""
    check_arguments(logits_NMV, targets_NM)
    probs = torch.softmax(logits_NMV, -1)
    nll = -torch.log(probs.gather(-1, targets_NM.unsqueeze(-1)).squeeze(-1))
    logits = widen(logits_NMV)
    return TokenLosses(widen(nll), torch.logsumexp(logits, -1), logits.detach().abs().amax(-1) if largest else None)
