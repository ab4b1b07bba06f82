"""The next token of given rows: cross entropy, in training and on held-out rows."""

import torch
from torch import Tensor

from trainwreck.models import gpt
from trainwreck.models.loss import smoothed, weighted_mean
from trainwreck.models.probe import Probe
from trainwreck.scenarios.config.settings import Reduction
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.evaluation import validate
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives.losses import Losses


def losses(
    bundle: Bundle,
    block: Inputs,
    index: int,
    step: int,
    probe: Probe | None,
    inputs_NBT: Tensor | None = None,
    weights_NM: Tensor | None = None,
) -> Losses:
    """Of the tokens of a batch. inputs, weights: what is read, and how it counts, in place of the block's own."""
    dropout = bundle.dropout(step) if bundle.program.dropout else None
    routers = bundle.router_losses()
    model = bundle.model(bundle.parameters(), step, bundle.running, dropout, probe, bundle.float8, routers)
    logits = gpt.forward(model, block.inputs[index] if inputs_NBT is None else inputs_NBT, block.documents[index])
    weights = block.weights[index] if weights_NM is None else weights_NM
    nll, log_z, largest = bundle.token_losses(logits, block.targets[index], largest=probe is not None)
    value = smoothed(nll, log_z, logits, bundle.smoothing) if bundle.program.smoothed else nll
    loss, objective = _minimised(bundle, value, log_z, weights)
    if bundle.updates.rows_N is not None:
        _, objective = _minimised(bundle, value, log_z, bundle.updates.counted(weights, bundle.setup.model.context))
    if routers is not None:
        objective = objective + routers.added(bundle.balance_loss, bundle.router_z_loss)
    return Losses(loss, objective, nll, log_z, largest)


def evaluate(bundle: Bundle, step: int) -> dict[str, Tensor]:
    """Mean losses on the held-out rows and, where the program has them, on the fresh ones, each [N]."""
    found = {"validation_loss": validate(bundle, step)}
    if bundle.fresh is not None:
        found["fresh_loss"] = validate(bundle, step, bundle.fresh)
    return found


def _minimised(bundle: Bundle, value_NM: Tensor, log_z_NM: Tensor, weights_NM: Tensor) -> tuple[Tensor, Tensor]:
    """What is logged of the tokens with these weights, and what is minimised, [N]."""
    loss = weighted_mean(value_NM, weights_NM)
    if bundle.program.reduction is Reduction.SUM:
        loss = loss * weights_NM.sum(1)
    objective = loss
    if bundle.program.z_loss:
        objective = loss + bundle.z_loss * weighted_mean(log_z_NM**2, weights_NM)
        loss = torch.where(bundle.log_objective, objective, loss)
    return loss, objective
