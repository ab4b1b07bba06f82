"""Loss of every token, log Z and largest logit in one pass; losses by position and by age.

Shapes: N runs, M tokens of a run (rows of T positions, one after the other), V vocabulary.
"""

import torch
from torch import Tensor

from trainwreck.kernels.cross_entropy import reference
from trainwreck.kernels.cross_entropy.losses import BucketLosses, TokenLosses
from trainwreck.kernels.selection import choose

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def cross_entropy(
    logits_NMV: Tensor, targets_NM: Tensor, *, largest: bool = False, impl: str | None = None
) -> TokenLosses:
    """-ln p(target) of every token, its log Z, and where asked for its largest logit.

    logits: any float dtype, taken to float32 (float64 stays). targets: int64, in 0 .. V-1; what another
    gives is undefined, an error or NaN. impl: reference, triton, cpp, or None for the rule of
    `trainwreck.kernels.selection`.
    Raises ValueError on arguments that don't fit, before any work.
    """
    check_arguments(logits_NMV, targets_NM)
    chosen = choose(impl, logits_NMV)
    if chosen == "cpp":
        from trainwreck.kernels.cross_entropy import cpp

        return cpp.cross_entropy(logits_NMV, targets_NM, largest)
    if chosen == "triton":
        from trainwreck.kernels.cross_entropy import triton

        return triton.cross_entropy(logits_NMV, targets_NM, largest)
    return reference.cross_entropy(logits_NMV, targets_NM, largest)


def bucket_losses(
    nll_NM: Tensor, weight_NM: Tensor, age_NM: Tensor, *, context: int, positions: int, ages: int,
    impl: str | None = None,
) -> BucketLosses:  # fmt: skip
    """Mean loss by position in the row, [N, positions], and by age of the target, [N, ages]; float32.

    nll: from `cross_entropy`. weight: as nll, 0 where a token doesn't count. age: int64, the bucket of
    each token, in 0 .. ages-1. context: T, positions of a row; M is a multiple of it.
    A NaN anywhere makes every bucket of its run NaN. There is no gradient.
    Raises ValueError on arguments that don't fit, before any work.
    """
    check_buckets(nll_NM, weight_NM, age_NM, context, positions, ages)
    if choose(impl, nll_NM) == "triton":
        from trainwreck.kernels.cross_entropy import triton_buckets

        return triton_buckets.bucket_losses(nll_NM, weight_NM, age_NM, context, positions, ages)
    return reference.bucket_losses(nll_NM, weight_NM, age_NM, context, positions, ages)


def check_arguments(logits: Tensor, targets: Tensor) -> None:
    """One line for the first argument that doesn't fit."""
    if logits.dtype not in DTYPES:
        raise ValueError(f"logits: dtype {logits.dtype} is not allowed; allowed: {DTYPES}")
    if logits.dim() != 3 or 0 in logits.shape:
        raise ValueError(f"logits: shape {tuple(logits.shape)} is not allowed; allowed: [N, M, V], all 1 or more")
    _check_like(logits, targets=(targets, torch.int64))


def check_buckets(nll: Tensor, weight: Tensor, age: Tensor, context: int, positions: int, ages: int) -> None:
    """One line for the first argument that doesn't fit."""
    if nll.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"nll: dtype {nll.dtype} is not allowed; allowed: torch.float32, torch.float64")
    if nll.dim() != 2 or 0 in nll.shape:
        raise ValueError(f"nll: shape {tuple(nll.shape)} is not allowed; allowed: [N, M], both 1 or more")
    _check_like(nll, weight=(weight, nll.dtype), age=(age, torch.int64))
    if context < 1 or nll.shape[1] % context:
        raise ValueError(f"context: {context} is not allowed; allowed: 1 or more, with {nll.shape[1]} a multiple of it")
    for name, value in (("positions", positions), ("ages", ages)):
        if value < 1:
            raise ValueError(f"{name}: {value} is not allowed; allowed: 1 or more")


def _check_like(first: Tensor, **others: tuple[Tensor, torch.dtype]) -> None:
    """Each of the others has the runs and tokens of the first, its device, and a dtype of its own."""
    for name, (tensor, dtype) in others.items():
        if tensor.shape != first.shape[:2]:
            raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not allowed; allowed: {tuple(first.shape[:2])}")
        if tensor.dtype != dtype or tensor.device != first.device:
            raise ValueError(
                f"{name}: {tensor.dtype} on {tensor.device} is not allowed; allowed: {dtype} on {first.device}"
            )
