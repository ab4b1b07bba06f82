"""One training step of a bundle: forward, backward, clipping, update, and what telemetry takes of it."""

import torch
from torch import Tensor

from trainwreck.kernels.norms import segment_statistics
from trainwreck.models import optim
from trainwreck.models.probe import Probe
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives.choose import objective
from trainwreck.scenarios.training.telemetry import StepFacts


def train_step(bundle: Bundle, block: Inputs, index: int, step: int) -> None:
    """One training step of every run, on the inputs at `index` of a block. No value is asked of the device."""
    probe = Probe(impl=bundle.impl) if bundle.recorder is not None else None
    losses = objective(bundle.program.objective).losses(bundle, block, index, step, probe)
    weights = block.weights[index] if losses.weights is None else losses.weights
    scale = bundle.scaler.scale
    factor = scale if bundle.program.scaled else torch.ones_like(losses.loss)
    parts = torch.autograd.grad(losses.objective, list(bundle.leaves.values()), grad_outputs=factor)
    with torch.no_grad():
        grads = torch.cat([part.flatten(1) for part in parts], 1)
        own_norm = None
        if bundle.averaging is not None:
            grads, own_norm = bundle.averaging.average(grads, weights.sum(1))
        if bundle.program.scaled:
            grads.div_(scale.unsqueeze(1))
        grads = bundle.updates.arrive(grads, bundle.carried)
        if bundle.carried is not None:
            bundle.carried = grads.clone()
        seen = segment_statistics(grads, bundle.plan.bounds, counts=bundle.recorder is not None, impl=bundle.impl)
        layer_norm = seen.norm_NS
        norm = torch.linalg.vector_norm(layer_norm, dim=1)
        overflow, clipped_by = ~torch.isfinite(norm), norm
        if bundle.averaging is not None and own_norm is not None:
            own_norm = own_norm / factor
            overflow = bundle.averaging.overflow(overflow, own_norm)
            clipped_by = bundle.averaging.clipped_by(norm, own_norm)
        coefficient = optim.clip_coefficient(clipped_by, bundle.settings.clip)
        values = None
        if bundle.recorder is not None and probe is not None:
            assert losses.largest is not None
            assert seen.nonfinite_N is not None
            assert seen.zeros_N is not None
            values = bundle.recorder.before_update(
                StepFacts(
                    loss=losses.loss.detach(),
                    nll_NM=losses.nll.detach(),
                    weight_NM=weights,
                    age_NM=block.ages[index],
                    log_z_NM=losses.log_z.detach(),
                    largest_NM=losses.largest,
                    grad_norm=norm,
                    clip_coef=coefficient,
                    loss_scale=scale,
                    skipped=overflow if bundle.program.scaled else torch.zeros_like(norm),
                    layer_grad_norm=layer_norm,
                    nonfinite_grads=seen.nonfinite_N,
                    zero_grads=seen.zeros_N / grads.shape[1],
                    flat=bundle.computing(),
                    probe=probe,
                    rank_grad_norm=own_norm,
                    signals=losses.signals,
                    ends_NM=_ends(bundle.program.end, block.inputs[index], block.targets[index]),
                )
            )
        grads.mul_(coefficient.unsqueeze(1))
        bundle.settings.lr = block.lr[index]
        update = optim.step(
            bundle.program.optimizer,
            bundle.flat,
            grads,
            bundle.moments,
            bundle.settings,
            bundle.decay_mask,
            overflow if bundle.program.scaled else None,
            bundle.updates,
            bundle.program.storage,
        )
        if bundle.average is not None:
            bundle.average.lerp_(bundle.flat, (1 - bundle.average_decay).unsqueeze(1))
        if bundle.program.scaled:
            bundle.scaler.update(overflow)
        if bundle.recorder is not None and values is not None:
            rms = optim.moment_rms(bundle.program.optimizer, grads, bundle.moments, bundle.settings, bundle.plan.bounds)
            bundle.recorder.write(index, values, update, rms)


def _ends(end: int | None, inputs_NBT: Tensor, targets_NM: Tensor) -> Tensor | None:
    """Which targets end an answer, scored or not, [N, M]; None for data without answers."""
    if end is None:
        return None
    return (targets_NM == end) & (inputs_NBT.flatten(1) != end)
