"""Means over the tokens of each run; `trainwreck.kernels.cross_entropy` has the loss of a token."""

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen


def weighted_mean(value_NM: Tensor, weight_NM: Tensor) -> Tensor:
    """Mean over the tokens of each run by weight, [N]; a run without any weight is 0."""
    total = weight_NM.sum(1)
    return (value_NM * weight_NM).sum(1) / torch.where(total > 0, total, 1.0)


def smoothed(nll_NM: Tensor, log_z_NM: Tensor, logits_NMV: Tensor, share_N: Tensor) -> Tensor:
    """Cross-entropy with targets of which a share is spread evenly over all tokens, [N, M], nats.

    -sum_v y_v ln p_v with y = (1 - share) onehot + share / V (Szegedy et al. 2016).
    """
    share = share_N.unsqueeze(1)
    return (1 - share) * nll_NM + share * (log_z_NM - widen(logits_NMV).mean(-1))
