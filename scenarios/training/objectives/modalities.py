"""Pictures and their captions as one stream of tokens, with a weight on those of pictures.

The loss is the mean over the tokens of both, a picture's times its weight. Held-out rows are scored without weights,
and each modality by itself.
"""

import torch
from torch import Tensor

from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.data.sources.captions import PICTURE
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import held_out_logits, sampled
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives import next_token
from trainwreck.scenarios.training.objectives.losses import Losses


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """The next token of both modalities."""
    weights = block.weights[index]
    weights = torch.where(block.targets[index] < PICTURE, weights * bundle.picture_weight.unsqueeze(1), weights)
    return next_token.losses(bundle, block, index, step, probe, weights_NM=weights)


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Mean losses on held-out rows, of both modalities and of each, [N]."""
    found = _by_modality(bundle, step, bundle.held_out)
    if bundle.fresh is not None:
        found["fresh_loss"] = _by_modality(bundle, step, bundle.fresh)["validation_loss"]
    return found


def _by_modality(bundle: Bundle, step: int, held_out: HeldOut) -> dict[str, Tensor]:
    parts = [
        (bundle.token_losses(logits, targets).nll_NM, targets)
        for logits, targets in held_out_logits(bundle, step, held_out)
    ]
    nll, targets = (torch.cat([part[i] for part in parts], 1) for i in range(2))
    weights = sampled(bundle, step, held_out[2]).flatten(1)
    picture = targets < PICTURE
    return {
        "validation_loss": weighted_mean(nll, weights),
        "picture_loss": weighted_mean(nll, torch.where(picture, weights, 0.0)),
        "caption_loss": weighted_mean(nll, torch.where(picture, 0.0, weights)),
    }
