"""Attention as fused Triton kernels: right, fast, and measured while it runs.

Forward and backward after FlashAttention-2 (Dao 2023), float32 sums, for stacked runs. The parts that
a faulty variant replaces are named in a `Recipe`; the right ones are `RIGHT`.

One difference to the reference, under the plain mask: it forms masked scores too, so a NaN or infinity
in a key or value spoils every query of its head there, and here only those whose tiles hold it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from trainwreck.kernels.attention.dropout import Dropout
from trainwreck.kernels.attention.mask import Mask
from trainwreck.kernels.attention.statistics import AttentionStats
from trainwreck.kernels.attention.tiles import WIDEST, choose, padded_width
from trainwreck.kernels.attention.triton import (
    backward,
    forward,
    parts,
)
from trainwreck.kernels.dtypes import tf32_allowed
from trainwreck.kernels.interpreter import mend

mend()


class Recipe(NamedTuple):
    """Device functions that the kernels are put together from; see `parts` for each.

    tabled: read every mask from a table, so that also masked scores take part.
    halves: some products are of half formats whatever the dtype is.
    """

    scores: Any = parts.scores
    shift: Any = parts.shift
    grade: Any = parts.grade
    finish: Any = parts.finish
    tabled: bool = False
    halves: bool = False


RIGHT = Recipe()


def attention(
    q_NBHTK: Tensor,
    k_NBHSK: Tensor,
    v_NBHSK: Tensor,
    *,
    mask: Mask,
    scale_N: Tensor,
    dropout: Dropout | None = None,
    stats: bool = True,
    recipe: Recipe = RIGHT,
) -> tuple[Tensor, AttentionStats | None]:
    """See `trainwreck.kernels.attention.attention`. Statistics are one number a head."""
    check_arguments(q_NBHTK)
    held: list[AttentionStats] = []
    keeper = held.append if stats else None
    with torch.cuda.device_of(q_NBHTK):  # Triton launches on the current device
        out: Tensor = _Attention.apply(q_NBHTK, k_NBHSK, v_NBHSK, mask, scale_N, dropout, recipe, keeper)
    return out, held[0] if held else None


def check_arguments(q: Tensor) -> None:
    """ValueError for a shape that only the reference does; dtype and device are `selection`'s to refuse."""
    if q.shape[-1] > WIDEST:
        raise ValueError(f"q: head width {q.shape[-1]} is not allowed with impl 'triton'; allowed: 1 to {WIDEST}")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask,
        scale: Tensor,
        dropout: Dropout | None,
        recipe: Recipe,
        keeper: Callable[[AttentionStats], None] | None,
    ) -> Tensor:
        q, k, v, scale = q.contiguous(), k.contiguous(), v.contiguous(), scale.float().contiguous()
        call = _Call(q, scale, mask, dropout, recipe)
        n, b, h, t, width = q.shape
        tile = choose(width, q.dtype, t, recipe.halves).forward
        # By token, as the projection after it wants it.
        out = q.new_empty(n, b, t, h, width)
        shift = torch.empty(n, b, h, t, dtype=torch.float32, device=q.device)
        norm = shift if call.plain else torch.empty_like(shift)
        blocks = triton.cdiv(t, tile.rows)
        columns = (forward.LEAKY if mask.leaky else forward.TIGHT).value
        part = shift if keeper is None else shift.new_empty(n, b, h, blocks, columns)
        forward.forward[(n * b * h * blocks,)](
            q, k, v, out, shift, norm, part, *call.masks, *call.draws, t, h, b, 1.0 / (b * t),
            ROWS=tile.rows, STEP=tile.step, STATS=keeper is not None, FORBIDDEN=mask.leaky,
            SHIFT=recipe.shift, num_warps=tile.warps, num_stages=tile.stages,
            maxnreg=tile.registers, **call.switches,
        )  # fmt: skip
        if keeper is not None:
            keeper(_reduce(part))
        ctx.call = call
        ctx.save_for_backward(q, k, v, out, shift, norm)
        return out.transpose(2, 3)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        q, k, v, out, shift, norm = ctx.saved_tensors
        call: _Call = ctx.call
        n, b, h, t, width = q.shape
        tile = choose(width, q.dtype, t, call.recipe.halves).backward
        d_out = grads[0].transpose(2, 3).contiguous()
        delta = torch.empty_like(shift)
        grid = (n * b * h * triton.cdiv(t, tile.rows),)
        sizes = {"K": width, "BK": padded_width(width), "HEADS_K": h * width}
        backward.row_dots[grid](out, d_out, delta, t, h, ROWS=tile.rows, num_warps=tile.warps, **sizes)
        d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        backward.backward[grid](
            q, k, v, d_out, shift, norm, delta, d_q, d_k, d_v, *call.masks, *call.draws, t, h, b,
            ROWS=tile.rows, STEP=tile.step, GRADE=call.recipe.grade, FINISH=call.recipe.finish,
            num_warps=tile.warps, num_stages=tile.stages, maxnreg=tile.registers, **call.switches,
        )  # fmt: skip
        return d_q, d_k, d_v, None, None, None, None, None


class _Call:
    """What the forward and the backward kernel are both given. An absent tensor is stood in for by another."""

    def __init__(self, q: Tensor, scale: Tensor, mask: Mask, dropout: Dropout | None, recipe: Recipe) -> None:
        _, _, h, t, width = q.shape
        self.recipe = recipe
        self.plain = mask.plain and not recipe.tabled
        ids = mask.short_documents()
        flags = table = scale
        stride = 0
        if not self.plain:
            table = mask.table(t, q.device)
            stride = t * t if len(table) > 1 else 0
            flags = torch.ones_like(scale) if mask.documents_N is None else mask.documents_N.float()
        self.masks = (scale, scale if ids is None else ids, flags, table, stride)
        self.draws: tuple[Any, ...] = (scale, scale, scale, 0)
        if dropout is not None:
            self.draws = (dropout.keys_N, dropout.thresholds, dropout.factors.float(), dropout.step)
        self.switches: dict[str, Any] = {
            "K": width,
            "BK": padded_width(width),
            "HEADS_K": h * width,
            "PLAIN": self.plain,
            "DOCUMENTS": ids is not None,
            "DROPOUT": dropout is not None,
            "PRECISION": "tf32" if tf32_allowed() else "ieee",
            "SCORES": recipe.scores,
        }


def _reduce(part: Tensor) -> AttentionStats:
    """[N, 1, H, 1] each, from partial means and maxima of blocks of queries, [N, B, H, blocks, columns]."""
    means = part[..., :-2].sum((1, 3), keepdim=True).unbind(-1)
    low, logit = part[..., -2:].amax((1, 3), keepdim=True).unbind(-1)
    entropy, lse, mass_self, distance, *forbidden = means
    return AttentionStats(entropy, -low, logit, lse, mass_self, distance, *forbidden)
