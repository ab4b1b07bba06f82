"""What runs of one program are told, side by side: settings, tables and held-out rows with a leading run dimension.

In each function `like` is the runs' flat weights, [N, P]: their device and dtype are the result's.
"""

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from trainwreck.models import optim
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.tables import Tables
from trainwreck.scenarios.data.batches import Batch
from trainwreck.scenarios.spec.job import Segment, extras

HeldOut = tuple[Tensor, Tensor, Tensor, Tensor]  # inputs, targets, weights, documents
T = TypeVar("T", Parametrization, Updates)


def per_run(values: list[float], like: Tensor) -> Tensor:
    """One number a run, [N]."""
    return torch.tensor(values, dtype=like.dtype, device=like.device)


def optional(parts: list[T], kind: type[T], like: Tensor) -> T:
    """Optional tensors of all runs; which ones there are is the same in all."""
    names = extras(parts[0])
    return kind(**{name: _moved(torch.cat([getattr(part, name) for part in parts]), like) for name in names})


def optimizer_settings(segments: list[Segment], plan: Layout, like: Tensor) -> optim.Settings:
    """The optimizer's settings of each run; the learning rate is that of the peak."""
    program = segments[0].program
    optimizers = [s.setup.optimizer for s in segments]
    return optim.Settings(
        lr=per_run([o.lr for o in optimizers], like),
        beta1=per_run([o.beta1 for o in optimizers], like),
        beta2=per_run([o.beta2 for o in optimizers], like),
        eps=per_run([o.eps for o in optimizers], like),
        weight_decay=per_run([o.weight_decay for o in optimizers], like),
        clip=per_run([float("inf") if o.clip is None else o.clip for o in optimizers], like),
        coupled=torch.tensor([o.coupled for o in optimizers], device=like.device) if program.coupled else None,
        update_clip=per_run([o.update_clip or 0.0 for o in optimizers], like) if program.update_clip else None,
        bounds=tuple((slot.start, slot.stop) for slot in plan.slots),
    )


def loss_scaler(segments: list[Segment], scale: Tensor, good_steps: Tensor) -> optim.LossScaler:
    """The loss scale of each run, as its state left it. scale, good_steps: [N]."""
    precisions = [s.setup.precision for s in segments]
    return optim.LossScaler(
        scale=scale,
        good_steps=good_steps,
        dynamic=torch.tensor([p.dynamic for p in precisions], device=scale.device),
        interval=per_run([p.growth_interval for p in precisions], scale),
        minimum=per_run([p.smallest_scale for p in precisions], scale),
        maximum=per_run([p.largest_scale for p in precisions], scale),
    )


def tables(segments: list[Segment], like: Tensor) -> Tables:
    """Masks, rotary angles and gains of each run."""
    program, parts = segments[0].program, [s.tables for s in segments]

    def cat(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts]).to(like.device)

    wide = like.dtype == torch.float64
    rotary = torch.complex128 if wide else torch.complex64
    return Tables(
        allowed_NTS=cat("allowed_NTS"),
        documents_N=cat("documents_N"),
        scale_N=cat("scale_N").to(like.dtype),
        rotary_q_NTK=cat("rotary_q_NTK").to(rotary),
        rotary_k_NTK=cat("rotary_k_NTK").to(rotary),
        **{name: _moved(cat(name), like) for name in extras(parts[0])},
        leaky=program.leaky,
        causal=program.causal,
    )


def held_out(batches: list[Batch], like: Tensor) -> HeldOut:
    """Rows that are evaluated, one batch a run."""
    inputs, targets, weights, documents = (
        torch.from_numpy(np.stack([getattr(b, name) for b in batches])).to(like.device)
        for name in ("inputs", "targets", "weights", "documents")
    )
    return inputs, targets, weights.to(like.dtype), documents


def _moved(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else tensor.dtype)
