"""One entry for every attention implementation and every variant.

Shapes: N runs, B rows, H heads, T query positions, S key positions (S = T), K head width.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module

import torch
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.statistics import AttentionStats
from trainwreck.kernels.rotary import api as rotary
from trainwreck.kernels.selection import choose

AttentionFn = Callable[..., tuple[Tensor, AttentionStats | None]]

# Attention done right is called "reference", in either implementation; the others are wrong on purpose. Each is two
# files: variants/<name>.py with an `attention` in plain PyTorch, its reference twin, and triton/<name>.py with a
# `RECIPE` for the fused kernels.
VARIANTS = ("reference", "fp16_scores", "softmax_unshifted")

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HOME = "trainwreck.kernels.attention"
_LOADED: dict[tuple[str, str], AttentionFn] = {}  # what was asked for before, so that a step imports nothing


def load_variant(name: str, impl: str = "reference") -> AttentionFn:
    """The attention function of a variant; only the modules asked for are imported."""
    if name not in VARIANTS:
        raise ValueError(f"attention variant: {name!r} is not allowed; allowed: {', '.join(VARIANTS)}")
    if impl == "cpp" and name == "reference":
        compiled: AttentionFn = import_module(f"{HOME}.cpp").attention
        return compiled
    if impl != "triton":
        home = HOME if name == "reference" else f"{HOME}.variants"
        fn: AttentionFn = import_module(f"{home}.{name}").attention
        return fn
    fused: AttentionFn = import_module(f"{HOME}.triton.launch").attention
    return fused if name == "reference" else partial(fused, recipe=import_module(f"{HOME}.triton.{name}").RECIPE)


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
    variant: str = "reference",
    impl: str | None = None,
) -> tuple[Tensor, AttentionStats | None]:
    """softmax(scale * q k', masked) v, and its statistics.

    q, k, v: float16, bfloat16, float32 or float64 (reference only), [N, B, H, T, K].
    scale_N: float, [N]. dropout: of the probabilities, after the statistics.
    impl: reference, triton, cpp, or None for the rule of `trainwreck.kernels.selection`.
    Returns [N, B, H, T, K] in the dtype of v, and statistics in the accumulation dtype.
    Raises ValueError on shapes, dtypes or devices that don't fit, before any work.
    """
    check_arguments(q_NBHTK, k_NBHSK, v_NBHSK, mask, scale_N, dropout)
    wanted = variant, choose(impl, q_NBHTK)
    if wanted not in _LOADED:
        _LOADED[wanted] = load_variant(*wanted)
    return _LOADED[wanted](q_NBHTK, k_NBHSK, v_NBHSK, mask=mask, scale_N=scale_N, dropout=dropout, stats=stats)


def rotary_attention(
    qkv_NBTD: Tensor,
    rotary_q_NTK: Tensor,
    rotary_k_NTK: Tensor,
    heads: int,
    *,
    bias_ND: Tensor | None = None,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
    variant: str = "reference",
    impl: str | None = None,
) -> tuple[Tensor, AttentionStats | None]:
    """`attention` of the heads that `trainwreck.kernels.rotary.split_and_rotate` makes of qkv, [N, B, T, 3 * H * K].

    bias: added to qkv before the rotation, [N, 3 * H * K]. In C++ all is one pass. Other arguments, result and errors
    are those of the two functions.
    """
    if bias_ND is not None and bias_ND.shape != (len(qkv_NBTD), qkv_NBTD.shape[-1]):
        allowed = [len(qkv_NBTD), qkv_NBTD.shape[-1]]
        raise ValueError(f"bias: shape {tuple(bias_ND.shape)} is not allowed; allowed: {allowed}")
    if variant == "reference" and choose(impl, qkv_NBTD) == "cpp":
        rotary.check_arguments(qkv_NBTD, rotary_q_NTK, rotary_k_NTK, heads)
        q, k, v = qkv_NBTD.unflatten(-1, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5)
        check_arguments(q, k, v, mask, scale_N, dropout)
        from trainwreck.kernels.attention import cpp

        tables = rotary_q_NTK, rotary_k_NTK
        return cpp.rotary_attention(
            qkv_NBTD, *tables, heads, bias_ND=bias_ND, mask=mask, scale_N=scale_N, dropout=dropout, stats=stats
        )
    qkv = qkv_NBTD if bias_ND is None else qkv_NBTD + bias_ND[:, None, None]
    q, k, v = rotary.split_and_rotate(qkv, rotary_q_NTK, rotary_k_NTK, heads, impl=impl)
    return attention(q, k, v, mask=mask, scale_N=scale_N, dropout=dropout, stats=stats, variant=variant, impl=impl)


def check_arguments(q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: Tensor, dropout: Dropout | None) -> None:
    """One line for the first argument that doesn't fit."""
    if q.dtype not in DTYPES:
        raise ValueError(f"q: dtype {q.dtype} is not allowed; allowed: {DTYPES}")
    if q.dim() != 5 or 0 in q.shape:
        raise ValueError(f"q: shape {tuple(q.shape)} is not allowed; allowed: [N, B, H, T, K], each 1 or more")
    for name, tensor in (("k", k), ("v", v)):
        if tensor.shape != q.shape:
            raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not allowed; allowed: {tuple(q.shape)}")
        if tensor.dtype != q.dtype or tensor.device != q.device:
            raise ValueError(
                f"{name}: {tensor.dtype} on {tensor.device} is not allowed; allowed: {q.dtype} on {q.device}"
            )
    n, b, _, t, _ = q.shape
    if scale.shape != (n,):
        raise ValueError(f"scale: shape {tuple(scale.shape)} is not allowed; allowed: [{n}]")
    if not scale.is_floating_point() or scale.device != q.device:
        raise ValueError(f"scale: {scale.dtype} on {scale.device} is not allowed; allowed: a float on {q.device}")
    mask.check(n, b, t, q.device)
    if dropout is not None:
        dropout.check(n, q.device)
