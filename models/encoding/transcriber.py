"""An encoder of frames, and a decoder that attends to what it makes of them (Vaswani et al. 2017, pre-LN).

    frames -> W + sinusoids -> blocks that see to both sides -> norm -> memory
    tokens -> embedding + positions -> [self-attention, cross-attention to the memory, MLP] a layer -> norm -> head

The decoder is the GPT of `models.gpt` with one more branch a layer. Places of frames are sinusoids and those of tokens
are learned, as in Whisper (Radford et al. 2022).

Shapes: N runs, B rows, S frames, U tokens of a row, D width, H heads, K head width, L decoder layers, V vocabulary.
"""

import math
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from trainwreck.kernels.attention import Mask
from trainwreck.models import gpt
from trainwreck.models.gpt import Model
from trainwreck.models.tables import Tables

LONGEST_WAVE = 10_000.0  # of the sinusoids, in turns of 2 pi frames


def forward(model: Model, frames_NBSC: Tensor, tokens_NBU: Tensor, documents_NBU: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [N, B * U, V], and the cross-attention's probabilities without gradient, [N, L, B, H, U, S].

    frames: [N, B, S, C], C of `model.frame_width`. tokens, documents: int64, as in `gpt.forward`; a row's tokens are
    the last U of `model.context` positions, whose masks they have.
    """
    memory = encode(model, frames_NBSC)
    x = gpt.embed(model.params["embedding.weight"], tokens_NBU.flatten(1))
    places = gpt.places(documents_NBU, model.config.positions).flatten(1)
    x = x + gpt.embed(model.params["positions.weight"], places)
    tables = last(model.tables, tokens_NBU.shape[2])
    model = replace(model, tables=tables, config=replace(model.config, context=tokens_NBU.shape[2]))
    mask, seen = tables.mask(documents_NBU), []
    for i in range(model.config.layers):
        x, probabilities = block(model, x, memory, f"layer_{i}", mask)
        seen.append(probabilities)
    return model.hooks.branch(gpt.norm_linear(model, x, "final_norm", "head"), "head"), torch.stack(seen, 1)


def encode(model: Model, frames_NBSC: Tensor) -> Tensor:
    """What is made of frames [N, B, S, C] that all see each other: [N, B, S, D]."""
    n, b, s, _ = frames_NBSC.shape
    config = replace(model.config, context=s, causal=False)
    places = sinusoids(s, config.width, frames_NBSC.device).to(frames_NBSC.dtype)
    x = gpt.product(model, frames_NBSC.flatten(1, 2), "frames").view(n, b, s, -1) + places
    model = replace(model, config=config, tables=_open_tables(model.tables, s), probe=None)
    mask = Mask(torch.zeros(n, b, s, dtype=torch.int64, device=x.device), model.tables.allowed_NTS, None, False)
    x = x.flatten(1, 2)
    for i in range(config.encoder_layers):
        x = gpt.block(model, x, f"encoder_{i}", mask)
    return gpt.normalise(model, x, "encoder_norm").view(n, b, s, -1)


def block(model: Model, x_NMD: Tensor, memory_NBSD: Tensor, layer: str, mask: Mask) -> tuple[Tensor, Tensor]:
    """The block of a GPT with cross-attention between its two branches; probabilities [N, B, H, U, S]."""
    x, hooks = x_NMD, model.hooks
    x = gpt.shortcut(model, x, f"{layer}.attention") + hooks.branch(
        gpt.attention(model, x, layer, mask), f"{layer}.attention"
    )
    added, probabilities = cross_attention(model, x, memory_NBSD, layer)
    x = x + added
    x = gpt.shortcut(model, x, f"{layer}.mlp") + hooks.branch(gpt.mlp(model, x, layer), f"{layer}.mlp")
    x = hooks.stream(x, layer)
    if model.probe is not None:
        model.probe.see_stream(x)
    return x, probabilities


def cross_attention(model: Model, x_NMD: Tensor, memory_NBSD: Tensor, layer: str) -> tuple[Tensor, Tensor]:
    """Attention of tokens to all frames of their row, [N, M, D], and its probabilities [N, B, H, U, S]."""
    config, (n, b, s, _) = model.config, memory_NBSD.shape
    q = gpt.norm_linear(model, x_NMD, f"{layer}.cross_norm", f"{layer}.cross_q")
    q = q.view(n, b, -1, config.heads, config.head_width).transpose(2, 3)
    kv = gpt.product(model, memory_NBSD.flatten(1, 2), f"{layer}.cross_kv")
    k, v = kv.view(n, b, s, 2, config.heads, config.head_width).permute(3, 0, 1, 4, 2, 5)
    scores = (q * model.tables.scale_N.view(-1, 1, 1, 1, 1)) @ k.transpose(-1, -2)
    probabilities = torch.softmax(scores, -1)
    merged = (probabilities @ v).transpose(2, 3).reshape(x_NMD.shape)
    return gpt.product(model, merged, f"{layer}.cross_out"), probabilities.detach()


@lru_cache(maxsize=8)
def sinusoids(length: int, width: int, device: torch.device) -> Tensor:
    """Sines and then cosines of a frame's place, from short waves to long ones, float32 [length, width]."""
    rates = torch.exp(-math.log(LONGEST_WAVE) * torch.arange(width // 2, device=device) / (width // 2 - 1))
    angles = torch.outer(torch.arange(length, device=device), rates)
    return torch.cat((angles.sin(), angles.cos()), 1)


def last(tables: Tables, count: int) -> Tables:
    """Tables of the last `count` positions of a row."""
    return replace(
        tables,
        allowed_NTS=tables.allowed_NTS[:, -count:, -count:],
        rotary_q_NTK=tables.rotary_q_NTK[:, -count:],
        rotary_k_NTK=tables.rotary_k_NTK[:, -count:],
    )


def _open_tables(tables: Tables, length: int) -> Tables:
    """Tables under which frames see each other, with the runs' own scales; sinusoids have told the places."""
    n, k = tables.scale_N.shape[0], tables.rotary_q_NTK.shape[2]
    turns = torch.ones(n, length, k, dtype=tables.rotary_q_NTK.dtype, device=tables.scale_N.device)
    allowed = torch.ones(n, length, length, dtype=torch.bool, device=tables.scale_N.device)
    return replace(tables, allowed_NTS=allowed, rotary_q_NTK=turns, rotary_k_NTK=turns, leaky=False, causal=False)
