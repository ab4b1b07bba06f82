"""The forward pass over a few positions at a time: keys and values of earlier ones are kept, and not computed again.

Shapes: N runs, B rows, Q positions that are read now, T of a whole row, S slots of the cache (as many as a row has
positions), M = B * Q tokens, L layers, H heads, K head width, D width, V vocabulary. `gpt.forward` defines the numbers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import matmul, widen
from trainwreck.kernels.rotary import split_and_rotate
from trainwreck.models import gpt
from trainwreck.models.config import Positions


@dataclass
class Cache:
    """Keys, rotated, and values of the tokens read so far, zero in empty slots. L tensors, each [N, B, H, S, K]."""

    keys: list[Tensor]
    values: list[Tensor]

    @classmethod
    def empty(cls, model: gpt.Model, rows: int) -> "Cache":
        """A cache of rows of which nothing is read yet."""
        config, like = model.config, model.params["embedding.weight"]
        shape = (like.shape[0], rows, config.heads, config.context, config.head_width)
        return cls(*([like.new_zeros(shape) for _ in range(config.layers)] for _ in range(2)))


def extend(model: gpt.Model, cache: Cache, tokens_NBQ: Tensor, start: int) -> Tensor:
    """Read tokens at positions from `start` on, into the cache, which is written in place. Logits, [N, M, V].

    A row is one document. Where the tables say so, a position is kept in another slot, rotated as another position,
    or read from another row; see `Tables`.
    """
    config, hooks = model.config, model.hooks
    stop = start + tokens_NBQ.shape[2]
    x = gpt.embed(model.params["embedding.weight"], tokens_NBQ.flatten(1))
    if config.positions is not Positions.ROTARY:
        place = _own(model.tables.cache_places_NT, model, start, stop).unsqueeze(1).expand(tokens_NBQ.shape)
        x = x + gpt.embed(model.params["positions.weight"], place.flatten(1))
    for i in range(config.layers):
        layer = f"layer_{i}"
        site = f"{layer}.attention"
        branch = _attention(model, x, layer, (cache.keys[i], cache.values[i]), start, stop)
        x = gpt.shortcut(model, x, site) + hooks.branch(branch, site)
        x = gpt.post_norm(model, x, f"{site}_norm")
        site = f"{layer}.mlp"
        x = gpt.shortcut(model, x, site) + hooks.branch(gpt.mlp(model, x, layer), site)
        x = hooks.stream(gpt.post_norm(model, x, f"{site}_norm"), layer)
    return hooks.branch(gpt.norm_linear(model, x, "final_norm", "head"), "head")


def _attention(
    model: gpt.Model, x_NMD: Tensor, layer: str, kept: tuple[Tensor, Tensor], start: int, stop: int
) -> Tensor:
    """Attention of the positions from start to stop on what the cache holds with them, [N, M, D]."""
    config, tables = model.config, model.tables
    qkv = gpt.norm_linear(model, x_NMD, f"{layer}.attention_norm", f"{layer}.qkv")
    if config.qk_norm:
        qkv = gpt.norm_heads(qkv, model.params[f"{layer}.qk_gain"], config)
    qkv = qkv.unflatten(1, (-1, stop - start))
    tables_qk = (tables.rotary_q_NTK, tables.rotary_k_NTK)
    turn_q, turn_k = (_rows_at(table, tables.cache_places_NT, start, stop) for table in tables_qk)
    q, k, v = split_and_rotate(qkv, turn_q, turn_k, config.heads, impl="reference")
    slots_NQ = _own(tables.cache_slots_NT, model, start, stop)
    for whole, new in zip(kept, (k, v), strict=True):
        whole.scatter_(3, slots_NQ[:, None, None, :, None].expand(new.shape), new.to(whole.dtype))
    keys, values = kept
    if tables.cache_rows_NS is not None:
        keys, values = (_of_other_rows(part, tables.cache_rows_NS) for part in kept)
    q = widen(q) * tables.scale_N.view(-1, 1, 1, 1, 1)
    scores = matmul(q, keys.transpose(-1, -2), q.dtype)
    filled_NQ = _own(tables.cache_slots_NT, model, 0, stop).cummax(1).values[:, start:]
    seen_NQS = torch.arange(config.context, device=q.device) <= filled_NQ.unsqueeze(2)
    probs = torch.softmax(scores.masked_fill(~seen_NQS[:, None, None], -torch.inf), -1)
    out_NBHQK = matmul(probs, values, v.dtype)
    return gpt.product(model, out_NBHQK.transpose(2, 3).reshape(x_NMD.shape), f"{layer}.attention_out")


def _rows_at(table_NTK: Tensor, places_NT: Tensor | None, start: int, stop: int) -> Tensor:
    """Rows of a rotary table for the positions from start to stop, [N, Q, K/2]."""
    if places_NT is None:
        return table_NTK[:, start:stop]
    index = places_NT[:, start:stop, None].expand(-1, -1, table_NTK.shape[2])
    return table_NTK.gather(1, index)


def _own(table_NT: Tensor | None, model: gpt.Model, start: int, stop: int) -> Tensor:
    """What a table says of the positions from start to stop, int64 [N, Q]; of None each is its own."""
    if table_NT is not None:
        return table_NT[:, start:stop]
    like = model.tables.documents_N
    return torch.arange(start, stop, device=like.device).expand(len(like), -1)


def _of_other_rows(kept_NBHSK: Tensor, rows_NS: Tensor) -> Tensor:
    """What is kept, where each slot is that of a row so many further on; after the last row comes the first."""
    n, b = kept_NBHSK.shape[:2]
    row = (torch.arange(b, device=rows_NS.device)[:, None] + rows_NS.view(n, 1, -1)) % b  # [N, B, S]
    return kept_NBHSK.gather(1, row[:, :, None, :, None].expand(kept_NBHSK.shape))
