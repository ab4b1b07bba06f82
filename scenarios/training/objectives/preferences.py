"""Pairs of answers, of which the first is preferred: direct preference optimisation (Rafailov et al. 2023).

    loss = mean over pairs of -ln sigmoid(beta * margin) + anchor * mean over their right answers' tokens of -ln p
    margin = ln(p / p_reference) of the right answer - ln(p / p_reference) of the wrong one

An answer's ln p is the sum over its scored tokens. The reference is the model as it was when pairs began. Before that,
runs are trained on the next token of text. The anchor is the term that Pang et al. 2024 add.

Shapes: N runs, B rows, T positions, M = B T tokens, Q = B / 2 pairs.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from trainwreck.models import gpt
from trainwreck.models.loss import weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.training.bundle import Bundle, HeldOut
from trainwreck.scenarios.training.evaluation import held_out_logits
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives import next_token
from trainwreck.scenarios.training.objectives.losses import Losses


def losses(bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
    """Of the pairs of a batch; before pairs begin, of the tokens of text."""
    if bundle.reference is None:
        return next_token.losses(bundle, block, index, step, probe)
    inputs, targets, documents = block.inputs[index], block.targets[index], block.documents[index]
    context = inputs.shape[2]
    weights = bundle.updates.counted(block.weights[index], context)
    model = bundle.model(bundle.parameters(), step, bundle.running, probe=probe)
    nll, log_z, largest = bundle.token_losses(gpt.forward(model, inputs, documents), targets, largest=probe is not None)
    with torch.no_grad():
        before = bundle.plan.views(bundle.parametrization.apply(bundle.reference))
        then = gpt.forward(bundle.model(before, step, bundle.running), inputs, documents)
        moved = answers(bundle.token_losses(then, targets).nll_NM, weights, context)
    moved = moved - answers(nll, weights, context)  # how far the log-probability of each answer is over the reference's
    right, wrong = (part.contiguous() for part in moved.unbind(2))
    margin = right - wrong
    preference = _preference(margin, bundle.beta, context).mean(1)
    loss = preference + bundle.anchor * _right(nll, weights, context)
    signals = {
        "dpo_loss": preference,
        "margin": margin.mean(1),
        "chosen_logp": right.mean(1),
        "rejected_logp": wrong.mean(1),
        "preference_accuracy": (margin > 0).to(nll.dtype).mean(1),
    }
    return Losses(loss, loss, nll, log_z, largest, {name: value.detach() for name, value in signals.items()})


@torch.no_grad()
def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Losses of held-out answers, and the share of pairs whose right one has the higher probability, each [N]."""
    found = _held_out(bundle, step, bundle.held_out)
    if bundle.fresh is not None:
        found["fresh_loss"] = _held_out(bundle, step, bundle.fresh)["validation_loss"]
    return found


def answers(nll_NM: Tensor, weight_NM: Tensor, context: int) -> Tensor:
    """-ln p of the answers of each pair, the right one first, [N, Q, 2]: the sum over their scored tokens."""
    total: Tensor = (nll_NM * weight_NM).view(len(nll_NM), -1, 2, context).sum(3)
    return total


def _preference(margin_NQ: Tensor, beta_N: Tensor, context: int) -> Tensor:
    """-ln sigmoid(beta * margin), [N, Q], as wide as a pair has tokens, of which a CPU's vectors are whole.

    What is left beside whole vectors is rounded otherwise, and where that is would depend on the bundle.
    """
    wide = margin_NQ.unsqueeze(2).expand(-1, -1, 2 * context).contiguous()
    return softplus(-beta_N.view(-1, 1, 1) * wide)[..., 0].contiguous()


def _held_out(bundle: Bundle, step: int, held_out: HeldOut) -> dict[str, Tensor]:
    context = held_out[0].shape[2]
    nll = torch.cat([bundle.token_losses(*part).nll_NM for part in held_out_logits(bundle, step, held_out)], 1)
    weights = held_out[2].flatten(1)
    each = answers(nll, weights, context)
    return {
        "validation_loss": _right(nll, weights, context),
        "validation_rejected_loss": _right(nll, weights, context, 1),
        "validation_accuracy": (each[..., 0] < each[..., 1]).to(nll.dtype).mean(1),
    }


def _right(nll_NM: Tensor, weight_NM: Tensor, context: int, place: int = 0) -> Tensor:
    """Mean over the scored tokens of right answers, [N]; place 1: of wrong ones."""
    parts = (x.view(len(x), -1, 2, context)[:, :, place].flatten(1) for x in (nll_NM, weight_NM))
    return weighted_mean(*parts)
