"""What attention probabilities look like: measured beside the output, reduced to numbers a run."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainwreck.kernels.attention.mask import Regions


class AttentionStats(NamedTuple):
    """Statistics of one layer, measured in the same pass as the output.

    One number a query, [N, B, H, T], or already one a head, [N, 1, H, 1], with rows and queries
    reduced as the name says (mean, but for the least entropy and the largest logit): `reduce` takes
    either. Entropy and log-sum-exp in nats, distance in positions, masses as shares of the query's
    attention. The forbidden masses are None where no run of the bundle lets anything forbidden
    through: they are 0 then.
    """

    entropy: Tensor
    entropy_min: Tensor
    logit_max: Tensor  # largest scaled, unmasked score
    lse: Tensor  # log of the sum of e**score
    mass_self: Tensor
    distance: Tensor  # mean of |query position - key position|
    mass_future: Tensor | None = None
    mass_other_document: Tensor | None = None
    mass_padding: Tensor | None = None


def reduce(layers: list[AttentionStats]) -> dict[str, Tensor]:
    """Statistics of all layers, each [N, L]; `head_entropy` is [N, L * H]."""

    def stack(name: str) -> Tensor:
        return torch.stack([getattr(layer, name) for layer in layers], 1)

    by_head = stack("entropy").mean((2, 4))  # [N, L, H]
    result = {
        "head_entropy": by_head.flatten(1),
        "attention_entropy": by_head.mean(2),
        "attention_entropy_min": torch.stack([layer.entropy_min.amin((1, 2, 3)) for layer in layers], 1),
        "attention_logit_max": torch.stack([layer.logit_max.amax((1, 2, 3)) for layer in layers], 1),
        "attention_lse": torch.stack([layer.lse.mean((1, 2, 3)) for layer in layers], 1),
        "attention_distance": stack("distance").mean((2, 3, 4)),
        "attention_mass_self": stack("mass_self").mean((2, 3, 4)),
    }
    zero = torch.zeros_like(result["attention_mass_self"])
    for name in ("mass_future", "mass_other_document", "mass_padding"):
        measured = getattr(layers[0], name) is not None
        result[f"attention_{name}"] = stack(name).mean((2, 3, 4)) if measured else zero
    return result


def measure(scores: Tensor, probs: Tensor, regions: Regions | None) -> AttentionStats:
    """Statistics of one layer from its masked scores and probabilities, each [N, B, H, T, S].

    Entropy of a row is -sum(p * (s - max(s))) - ln(max(p)). The maximum goes first, as in the softmax,
    so that large scores, or a row of MASKED ones, don't swallow it. The scores are overwritten: they
    are large, and no longer needed.
    """
    t = probs.shape[-1]
    top_s = scores.amax(-1)
    log_top_p = probs.amax(-1).log_()
    entropy = scores.sub_(top_s.unsqueeze(-1)).mul_(probs).sum(-1).neg_().sub_(log_top_p)
    lse = top_s - log_top_p
    position = torch.arange(t, dtype=probs.dtype, device=probs.device)
    mass_self = probs.diagonal(dim1=-2, dim2=-1)
    if regions is None:
        # torch.mv is fast, but where rows aren't aligned its last bits depend on how many runs there are.
        aligned = t % 16 == 0
        mean_s = torch.mv(probs.view(-1, t), position).view_as(entropy) if aligned else (probs * position).sum(-1)
        return AttentionStats(entropy, entropy, top_s, lse, mass_self, position - mean_s)
    distance = (probs * (position[:, None] - position).abs()).sum(-1)
    masses = (torch.where(where.unsqueeze(-3), probs, 0).sum(-1) for where in regions)
    return AttentionStats(entropy, entropy, top_s, lse, mass_self, distance, *masses)
