"""A plain GPT of one run, from the definition; random problems; the error budget of a precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models import gpt
from trainwreck.models.config import Activation, Format, ModelConfig, Norm, Placement, Positions
from trainwreck.models.loss import weighted_mean
from trainwreck.models.parameters import layout, norm_names
from trainwreck.models.tables import Tables, healthy_tables
from trainwreck.models.variants import select
from trainwreck.models.variants.batch_norm import RunningMoments, initial_moments

Weights = dict[str, Tensor]


@dataclass
class Knobs:
    """What may differ from a healthy model of one run: the masks, tables and draws of that run."""

    allowed: Tensor | None = None  # bool, [T, S]; None for causal
    by_document: bool = True
    scale: float | None = None
    angle_q: Tensor | None = None  # radians, float64, [T, K/2]; None for position times frequency
    angle_k: Tensor | None = None
    branch_gain: Tensor | None = None  # [L, 2]
    shortcut_gain: Tensor | None = None  # [L, 2]
    logit_gain: float | None = None
    keep: dict[str, Tensor] | None = None  # scaled dropout masks by site
    bare: Tensor | None = None  # bool, [L, 2]: branches without their norm, whose gain and shift still act


def _angles(c: ModelConfig) -> Tensor:
    pair = torch.arange(c.head_width // 2, dtype=torch.float64)
    return torch.outer(torch.arange(c.context, dtype=torch.float64), c.rope_base ** (-2 * pair / c.head_width))


def _rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Turn each pair of neighbouring features [..., T, K] by the angle of its position."""
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def _places(documents: Tensor, positions: Positions) -> Tensor:
    """The place of each token in its row, or in its stretch of one document, counted token by token; [B, T]."""
    found = torch.zeros_like(documents)
    for b, row in enumerate(documents.tolist()):
        for t in range(1, len(row)):
            goes_on = positions is Positions.ROW or row[t] == row[t - 1]
            found[b, t] = found[b, t - 1] + 1 if goes_on else 0
    return found


def _logits(
    w: Weights,
    tokens: Tensor,
    documents: Tensor,
    c: ModelConfig,
    knobs: Knobs | None = None,
    seen: dict[str, list[Tensor]] | None = None,
) -> Tensor:
    """Logits [B * T, V] of one run. tokens, documents: [B, T]. seen: gets `stream` and `fired` of every layer."""
    o = knobs or Knobs()
    b, t = tokens.shape
    allowed = torch.ones(t, t, dtype=torch.bool).tril() if o.allowed is None else o.allowed
    allowed = allowed.expand(b, t, t)
    if o.by_document:
        allowed = allowed & (documents[:, :, None] == documents[:, None, :])
    scale = 1 / math.sqrt(c.head_width) if o.scale is None else o.scale
    learned = c.positions is not Positions.ROTARY
    angle_q, angle_k = (_angles(c) if angle is None else angle for angle in (o.angle_q, o.angle_k))

    def norm(x: Tensor, name: str, bare: bool = False) -> Tensor:
        gain, shift = w[f"{name}.gain"], w.get(f"{name}.bias")
        if bare:
            return x * gain + (0 if shift is None else shift)
        if c.norm is Norm.RMS:
            return F.rms_norm(x, (c.width,), gain, c.norm_eps)
        if c.norm is Norm.BATCH:
            return F.batch_norm(x.flatten(0, -2), None, None, gain, shift, True, 0.0, c.norm_eps).view(x.shape)
        return F.layer_norm(x, (c.width,), gain, shift, c.norm_eps)

    def dense(x: Tensor, name: str) -> Tensor:
        y = F.linear(x, w[f"{name}.weight"].T, w.get(f"{name}.bias"))
        if c.lora_rank and name != "head":  # LoRA as in the paper: h = W x + (alpha / r) B A x
            low = F.linear(x, w[f"{name}.lora_a"].T)
            y = y + F.linear(low, w[f"{name}.lora_b"].T) * (c.lora_alpha / c.lora_rank)
        return y

    def drop(x: Tensor, site: str) -> Tensor:
        return x if o.keep is None else x * o.keep[site].view(x.shape).to(x.dtype)

    def attend(x: Tensor, name: str) -> Tensor:
        q, k, v = (y.view(b, t, c.heads, -1).transpose(1, 2) for y in dense(x, f"{name}.qkv").split(c.width, -1))
        if c.qk_norm:
            gain = w[f"{name}.qk_gain"]
            q, k = (F.rms_norm(y, (c.head_width,), gain[i].to(y.dtype), c.norm_eps) for i, y in enumerate((q, k)))
        if not learned:
            q, k = _rotate(q, angle_q), _rotate(k, angle_k)
        scores = q @ k.transpose(-1, -2) * scale
        probs = torch.softmax(scores.masked_fill(~allowed[:, None], -torch.inf), -1)
        merged = (drop(probs, f"{name}/probs") @ v).transpose(1, 2).reshape(b, t, c.width)
        return drop(dense(merged, f"{name}.attention_out"), f"{name}/attention")

    def mlp(x: Tensor, name: str) -> Tensor:
        hidden = dense(x, f"{name}.mlp_in")
        if c.activation is Activation.SWIGLU:
            gate, up = hidden.chunk(2, -1)
            fired = F.silu(gate)
        else:
            fired, up = (F.gelu(hidden) if c.activation is Activation.GELU else F.relu(hidden)), 1.0
        if seen is not None:
            seen["fired"].append(fired.detach())
        hidden = fired * up
        return drop(dense(hidden, f"{name}.mlp_out"), f"{name}/mlp")

    x = F.embedding(tokens, w["embedding.weight"])
    if learned:
        x = x + F.embedding(_places(documents, c.positions), w["positions.weight"])
    x = drop(x, "embedding")
    for i in range(c.layers):
        for j, (branch, norm_name) in enumerate(((attend, "attention_norm"), (mlp, "mlp_norm"))):
            name, gain = f"layer_{i}", 1.0 if o.branch_gain is None else o.branch_gain[i, j]
            past = c.residual_gain * (1.0 if o.shortcut_gain is None else o.shortcut_gain[i, j])
            bare = o.bare is not None and bool(o.bare[i, j])
            if c.placement is Placement.PRE:
                x = past * x + gain * branch(norm(x, f"{name}.{norm_name}", bare), name)
            else:
                x = norm(past * x + gain * branch(x, name), f"{name}.{norm_name}", bare)
        if seen is not None:
            seen["stream"].append(x.detach())
    x = norm(x, "final_norm") if c.placement is Placement.PRE else x
    logits = F.linear(x, w["embedding.weight"], w.get("head.bias")) if c.tied else dense(x, "head")
    return logits.flatten(0, 1) * (1.0 if o.logit_gain is None else o.logit_gain)


def _objective(logits: Tensor, targets: Tensor, weight: Tensor, z_loss: Tensor) -> Tensor:
    """Weighted mean of cross-entropy plus z_loss times that of log Z squared."""
    nll = F.cross_entropy(logits.to(weight.dtype), targets, reduction="none")
    log_z = torch.logsumexp(logits.to(weight.dtype), -1)
    return ((nll + z_loss * log_z**2) * weight).sum() / weight.sum()


@dataclass
class Problem:
    """A bundle with random parameters [N, P] (float64) and data, and the plain results for it."""

    config: ModelConfig
    flat: Tensor
    tokens: Tensor  # [N, B, T]
    documents: Tensor  # [N, B, T]
    targets: Tensor  # [N, B * T]
    weight: Tensor  # [N, B * T], 0 for padding and some others
    z_loss: Tensor  # [N]
    knobs: list[Knobs]

    def leaves(self, dtype: torch.dtype) -> Weights:
        flat = self.flat.to(dtype)
        return {name: v.detach().requires_grad_() for name, v in layout(self.config).views(flat).items()}

    def plain(self, dtype: torch.dtype, factor: float = 1.0) -> Weights:
        """`logits`, `objective`, and the gradient of every parameter (times `factor`), stacked over the runs."""
        runs = []
        for i, knobs in enumerate(self.knobs):
            w = {name: v[i].detach().requires_grad_() for name, v in self.leaves(dtype).items()}
            logits = _logits(w, self.tokens[i], self.documents[i], self.config, knobs)
            loss = _objective(logits, self.targets[i], self.weight[i].to(dtype), self.z_loss[i].to(dtype))
            grads = torch.autograd.grad(factor * loss, list(w.values()))
            runs.append({"logits": logits.detach(), "objective": loss.detach()} | dict(zip(w, grads, strict=True)))
        return {name: torch.stack([run[name] for run in runs]) for name in runs[0]}


def _problem(*, runs: int = 2, rows: int = 3, seed: int = 0, z_loss: float = 0.0, **config: Any) -> Problem:
    c = ModelConfig(**({"layers": 2, "width": 12, "heads": 2, "vocab_size": 11, "context": 7} | config))
    random = torch.Generator().manual_seed(seed)
    plan = layout(c)
    flat = torch.randn(runs, plan.size, generator=random, dtype=torch.float64)
    for slot in plan.slots:
        part = flat[:, slot.start : slot.stop]
        if "gain" in slot.name:
            part.mul_(0.2).add_(1)
        else:
            part.mul_(0.2 if slot.name.endswith("bias") else 1 / math.sqrt(slot.shape[0]))
    t = c.context
    tokens = torch.randint(c.vocab_size, (runs, rows, t), generator=random)
    targets = torch.randint(c.vocab_size, (runs, rows * t), generator=random)
    documents = (torch.arange(t) * 3 // t).expand(runs, rows, t).clone()
    documents[:, 1::2] = 0
    documents[:, 2::3, t - t // 3 :] = -1
    weight = (documents >= 0).double().flatten(1)
    weight[:, 3::5] = 0
    z = torch.linspace(0.5, 1, runs) * z_loss
    # Numbers that float32 has too, so that precisions differ in what they compute and not in what they are given.
    flat, z = flat.float().double(), z.double()
    return Problem(c, flat, tokens, documents, targets, weight, z, [Knobs() for _ in range(runs)])


def _stacked(
    problem: Problem,
    dtype: torch.dtype,
    *,
    tables: Tables | None = None,
    format: Format = Format.FP32,
    dropout: gpt.Dropout | None = None,
    factor: float = 1.0,
) -> Weights:
    """`Problem.plain` of the stacked model, all runs at once."""
    p = problem
    leaves = p.leaves(dtype)
    tables = tables or healthy_tables(p.config, len(p.flat), dtype)
    running = None
    if p.config.norm is Norm.BATCH:
        names = norm_names(p.config)
        moments = initial_moments(names, p.config.width, dtype).repeat(len(p.flat), 1, 1, 1)
        running = RunningMoments(moments, names)
    hooks = select.hooks(p.config, tables, list(range(len(p.flat))), 0, running)
    logits = gpt.forward(gpt.Model(leaves, p.config, tables, format, dropout, hooks=hooks), p.tokens, p.documents)
    nll, log_z, _ = cross_entropy(logits, p.targets)
    weight = p.weight.to(dtype)
    loss = weighted_mean(nll, weight)
    if p.z_loss.any():
        loss = loss + p.z_loss.to(dtype) * weighted_mean(log_z**2, weight)
    grads = torch.autograd.grad(loss, list(leaves.values()), grad_outputs=torch.full_like(loss, factor))
    return {"logits": logits.detach(), "objective": loss.detach()} | dict(zip(leaves, grads, strict=True))


def _within(got: Weights, plain: Weights, exact: Weights, dtype: torch.dtype, share: float = 1.0) -> None:
    """The median run's error is at most twice (times share) the plain model's, or 16 ulps.

    The median, as single runs may be ill-conditioned, and then either side is the worse by chance. A gradient has been
    rounded in some dozen products; on a processor whose products round once (FMA) the plain model's own error may be
    a few ulps by chance, which is no bound on another order of the same sums.
    """
    assert set(got) == set(exact) <= set(plain)
    for name, right in exact.items():
        runs = len(right)
        norm = right.reshape(runs, -1).norm(dim=1)
        norm = torch.where(norm > 0, norm, 1.0)
        error, own = (
            ((side[name].double() - right).reshape(runs, -1).norm(dim=1) / norm).quantile(0.5).item()
            for side in (got, plain)
        )
        budget = max(2 * share * own, 16 * torch.finfo(dtype).eps)
        assert error <= budget, f"{name}: relative error {error:.3g}, allowed {budget:.3g}"


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    return _problem


@pytest.fixture(scope="session")
def make_knobs() -> type[Knobs]:
    return Knobs


@pytest.fixture(scope="session")
def plain_angles() -> Callable[[ModelConfig], Tensor]:
    return _angles


@pytest.fixture(scope="session")
def plain_logits() -> Callable[..., Tensor]:
    return _logits


@pytest.fixture(scope="session")
def assert_within_budget() -> Callable[..., None]:
    return _within


@pytest.fixture(scope="session")
def stacked() -> Callable[..., Weights]:
    return _stacked
