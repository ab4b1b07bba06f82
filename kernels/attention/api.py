"""One entry for every attention implementation, and what each has to return.

Shapes: N runs, B rows, H heads, T query positions, S key positions (S = T), K head width.
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor

# A masked score. Finite, so that a row in which nothing is allowed is a uniform row and not NaN,
# as in the frameworks that fill with the dtype's minimum; e**MASKED is exactly 0 in every dtype.
MASKED = -1e30


class AttentionStats(NamedTuple):
    """What the attention probabilities of one layer look like, measured in the same pass.

    One number a query, [N, B, H, T]: `reduce` makes numbers a run of them. Entropy in nats, distance
    in positions, masses as shares of the query's attention. The forbidden masses are None where no
    run of the bundle lets anything forbidden through: they are 0 then.
    """

    entropy: Tensor
    logit_max: Tensor  # largest scaled, unmasked score
    mass_self: Tensor
    distance: Tensor  # mean of |query position - key position|
    mass_future: Tensor | None = None
    mass_other_document: Tensor | None = None
    mass_padding: Tensor | None = None


def reduce(layers: list[AttentionStats]) -> dict[str, Tensor]:
    """Statistics of all layers, each [N, L]; `head_entropy` is [N, L * H]."""
    parts = {
        name: torch.stack([getattr(layer, name) for layer in layers], 1)
        for name in AttentionStats._fields
        if getattr(layers[0], name) is not None
    }
    by_head = parts["entropy"].mean((2, 4))  # [N, L, H]
    result = {
        "head_entropy": by_head.flatten(1),
        "attention_entropy": by_head.mean(2),
        "attention_entropy_min": parts["entropy"].amin((2, 3, 4)),
        "attention_logit_max": parts["logit_max"].amax((2, 3, 4)),
        "attention_distance": parts["distance"].mean((2, 3, 4)),
        "attention_mass_self": parts["mass_self"].mean((2, 3, 4)),
    }
    zero = torch.zeros_like(result["attention_mass_self"])
    for name in ("mass_future", "mass_other_document", "mass_padding"):
        result[f"attention_{name}"] = parts[name].mean((2, 3, 4)) if name in parts else zero
    return result


class Regions(NamedTuple):
    """Where forbidden attention could land. Needed only where a mask lets something through.

    future_TS: bool. other_document_NBTS, padding_NBTS: bool.
    """

    future_TS: Tensor
    other_document_NBTS: Tensor
    padding_NBTS: Tensor


AttentionFn = Callable[..., tuple[Tensor, AttentionStats | None]]

# Every variant is one file beside this one, with a function `attention` of the same signature.
VARIANTS = ("reference", "fp16_scores")


def load_variant(name: str) -> AttentionFn:
    """The attention function of a variant; only the module asked for is imported."""
    if name not in VARIANTS:
        raise ValueError(f"attention variant: {name!r} is not allowed; allowed: {', '.join(VARIANTS)}")
    fn: AttentionFn = import_module(f"trainwreck.kernels.attention.{name}").attention
    return fn


def mask_bias(allowed: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """0 where a key is allowed, MASKED where it is not. allowed: bool, [..., T, S]."""
    return (~allowed).to(dtype) * MASKED


def document_bias(documents_NBT: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """0 between tokens of one document, MASKED between others, [N, B, T, S].

    Ids are whole numbers, so documents differ by 1 or more: arithmetic on floats is vectorised where
    comparing and selecting are not.
    """
    ids = documents_NBT.to(dtype)
    return (ids.unsqueeze(3) - ids.unsqueeze(2)).abs_().clamp_(max=1.0).mul_(MASKED)


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    bias_NBTS: Tensor,
    scale_N: Tensor,
    keep_NBHTS: Tensor | None = None,
    regions: Regions | None = None,
    stats: bool = True,
    variant: str = "reference",
) -> tuple[Tensor, AttentionStats | None]:
    """softmax(scale * q k' + bias) v, and its statistics.

    q, k, v: float16, bfloat16, float32 or float64, [N, B, H, T, K]. bias_NBTS: from `mask_bias`,
    [N or 1, B or 1, T, S]. scale_N: float, [N]. keep_NBHTS: scaled dropout mask or None.
    regions: needed where the bias allows a future, padded or other document's key; without it
    those masses are reported as 0, which is exact where they are masked.
    Returns [N, B, H, T, K] in the dtype of v, and statistics in the accumulation dtype.
    Raises ValueError on shapes or dtypes that don't fit, before any work.
    """
    check_arguments(q_NBHTK, k_NBHSK, v_NBHSK, bias_NBTS, scale_N)
    return load_variant(variant)(
        q_NBHTK,
        k_NBHSK,
        v_NBHSK,
        bias_NBTS=bias_NBTS,
        scale_N=scale_N,
        keep_NBHTS=keep_NBHTS,
        regions=regions,
        stats=stats,
    )


def check_arguments(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: Tensor) -> None:
    """One line for the first argument that doesn't fit."""
    dtypes = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    if q.dtype not in dtypes:
        raise ValueError(f"q: dtype {q.dtype} is not allowed; allowed: {dtypes}")
    if q.dim() != 5:
        raise ValueError(f"q: shape {tuple(q.shape)} is not allowed; allowed: [N, B, H, T, K]")
    for name, tensor in (("k", k), ("v", v)):
        if tensor.shape != q.shape:
            raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not allowed; allowed: {tuple(q.shape)}")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name}: {tensor.dtype} on {tensor.device} is not allowed; allowed: {q.dtype} on {q.device}"
            )
    n, b, _, t, _ = q.shape
    if bias.dim() != 4 or bias.shape[0] not in (1, n) or bias.shape[1] not in (1, b) or bias.shape[2:] != (t, t):
        raise ValueError(f"bias: shape {tuple(bias.shape)} is not allowed; allowed: [{n} or 1, {b} or 1, {t}, {t}]")
    if scale.shape != (n,):
        raise ValueError(f"scale: shape {tuple(scale.shape)} is not allowed; allowed: [{n}]")
