"""The peer: a plain single-run training loop in the style of nanoGPT, without any telemetry.

`nn.Module` layers, scaled_dot_product_attention, fused AdamW, gradient clipping, batches cut from one
long array of tokens. `rotary` chooses between the model that the lab trains (rotary positions) and
nanoGPT's own (learnt positions, a little less work).
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from trainwreck.models.config import ModelConfig


class Block(nn.Module):
    """Attention and MLP under pre-LN."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.heads = c.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width), nn.Linear(c.width, c.width)
        self.up, self.down = nn.Linear(c.width, 4 * c.width), nn.Linear(4 * c.width, c.width)

    def forward(self, x: Tensor, angle: tuple[Tensor, Tensor] | None) -> Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm_1(x)).split(d, dim=2)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in qkv)
        if angle is not None:
            q, k = rotate(q, *angle), rotate(k, *angle)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        x = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return x


class Plain(nn.Module):
    """A small GPT."""

    def __init__(self, c: ModelConfig, rotary: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.width)
        self.position = None if rotary else nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.vocab_size)
        half = c.head_width // 2
        frequency = c.rope_base ** (-torch.arange(half) / half)
        turn = torch.outer(torch.arange(c.context).float(), frequency)
        self.register_buffer("cos", turn.cos())
        self.register_buffer("sin", turn.sin())

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        angle = None
        if self.position is None:
            angle = (self.cos, self.sin)
        else:
            x = x + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, angle)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, halves paired."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class PlainLoop:
    """The loop: get a batch, forward, backward, clip, step.

    rate: learning rate of each step since the loop was made; by default 1e-2 at all. autocast: to bfloat16.
    """

    def __init__(
        self,
        c: ModelConfig,
        rows: int,
        tokens: np.ndarray,
        rotary: bool,
        device: str = "cpu",
        rate: Callable[[int], float] | None = None,
        autocast: bool = False,
    ) -> None:
        self.model, self.rows, self.context = Plain(c, rotary).to(device), rows, c.context
        self.device = device
        self.tokens = tokens
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, betas=(0.9, 0.99), fused=True)
        self.draw = np.random.default_rng(0)
        self.rate, self.done = rate, 0
        self.autocast = torch.autocast(device, torch.bfloat16, enabled=autocast)

    def run(self, steps: int) -> None:
        """Train for a number of steps."""
        for _ in range(steps):
            starts = self.draw.integers(0, len(self.tokens) - self.context - 1, self.rows)
            rows = torch.stack([torch.from_numpy(self.tokens[s : s + self.context + 1]) for s in starts])
            rows = rows.to(self.device, non_blocking=True)
            with self.autocast:
                loss = self.model(rows[:, :-1], rows[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if self.rate is not None:
                self.optimizer.param_groups[0]["lr"] = self.rate(self.done)
            self.optimizer.step()
            self.done += 1
            self.optimizer.zero_grad(set_to_none=True)
