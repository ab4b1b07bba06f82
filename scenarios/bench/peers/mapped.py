"""A peer that trains several runs at once: the model of `loops.Plain` in JAX, mapped over runs, one compiled step.

Shapes: N runs, B rows, T positions, D width, H heads, V vocabulary.
"""

import os
from typing import Any

import numpy as np

from trainwreck.evaluation.extras import require
from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.bench.peers.loops import EXTRA, Plain

RATE, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.99), 1e-8, 1e-2, 1.0  # those of `loops.PlainLoop`
# Of XLA's CPU client, as JAX is loaded: it has no call that sets them later.
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class MappedLoop:
    """`PlainLoop` of several runs: get a batch for each, then one call for forward, backward, clip and step.

    InputError where JAX is not installed. The models are drawn from torch's generator, as a plain loop's is.
    """

    def __init__(self, c: ModelConfig, rows: int, tokens: np.ndarray, runs: int) -> None:
        os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
        jax = require("jax", EXTRA)
        self.rows, self.context, self.tokens, self.runs = rows, c.context, tokens, runs
        models = [Plain(c, rotary=True) for _ in range(runs)]
        turn = {name: models[0].get_buffer(name).numpy() for name in ("cos", "sin")}
        each = [{name: one.detach().numpy() for name, one in model.named_parameters()} for model in models]
        self.parameters = {name: np.stack([one[name] for one in each]) for name in each[0]}
        self.moments = [jax.tree.map(np.zeros_like, self.parameters) for _ in BETAS]
        self.draw = np.random.default_rng(0)
        self.done = 0
        one = _step_of(jax, c, turn)
        self.step = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)), donate_argnums=(0, 1))

    def run(self, steps: int) -> np.ndarray:
        """Train for a number of steps. Losses of the last of them, [N]."""
        losses = np.full(self.runs, np.nan)
        for _ in range(steps):
            starts = self.draw.integers(0, len(self.tokens) - self.context - 1, (self.runs, self.rows))
            batch = self.tokens[starts[..., None] + np.arange(self.context + 1)]
            self.done += 1
            self.parameters, self.moments, losses = self.step(self.parameters, self.moments, batch, self.done)
        return np.asarray(losses)  # waits for what was asked for


def _step_of(jax: Any, c: ModelConfig, turn: dict[str, np.ndarray]) -> Any:
    """A training step of one run: parameters, moments, tokens [B, T + 1] and the step's number from 1 on."""
    jnp = jax.numpy
    heads, width = c.heads, c.head_width
    hidden = np.triu(np.full((c.context, c.context), -np.inf, np.float32), 1)

    def norm(x: Any, p: Any, name: str) -> Any:
        y = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * p[f"{name}.weight"] + p[f"{name}.bias"]

    def linear(x: Any, p: Any, name: str) -> Any:
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def rotate(x: Any) -> Any:
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate((a * turn["cos"] - b * turn["sin"], b * turn["cos"] + a * turn["sin"]), -1)

    def attention(x: Any, p: Any, name: str) -> Any:
        b, t, d = x.shape
        qkv = linear(x, p, f"{name}.qkv").reshape(b, t, 3, heads, width).transpose(2, 0, 3, 1, 4)
        q, k, v = rotate(qkv[0]), rotate(qkv[1]), qkv[2]
        weight = jax.nn.softmax(q @ k.swapaxes(-1, -2) * width**-0.5 + hidden, -1)
        return linear((weight @ v).swapaxes(1, 2).reshape(b, t, d), p, f"{name}.out")

    def loss_of(p: Any, tokens: Any) -> Any:
        x = p["embedding.weight"][tokens[:, :-1]]
        for layer in range(c.layers):
            name = f"blocks.{layer}"
            x = x + attention(norm(x, p, f"{name}.norm_1"), p, name)
            up = jax.nn.gelu(linear(norm(x, p, f"{name}.norm_2"), p, f"{name}.up"), approximate=False)
            x = x + linear(up, p, f"{name}.down")
        logits = linear(norm(x, p, "norm"), p, "head")
        right = jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - right).mean()

    def step(p: Any, moments: Any, tokens: Any, count: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(p, tokens)
        total = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(gradient)))
        gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, CLIP / (total + 1e-6)), gradient)
        first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, moments[0], gradient)
        second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, moments[1], gradient)
        large, small = (1 - beta**count for beta in BETAS)
        after = jax.tree.map(
            lambda x, m, v: x * (1 - RATE * DECAY) - RATE / large * m / (jnp.sqrt(v / small) + EPS), p, first, second
        )
        return after, [first, second], loss

    return step
