"""Attention from the definition: a float64 loop over queries, and plain PyTorch in any precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

Arrays = dict[str, Tensor]


@dataclass
class Problem:
    """q, k, v [N, B, H, T, K]; allowed bool [N, B, T, S]; scale [N]; keep [N, B, H, T, S] or None."""

    q: Tensor
    k: Tensor
    v: Tensor
    allowed: Tensor
    scale: Tensor
    documents: Tensor  # [N, B, T], -1 for padding
    keep: Tensor | None = None

    def to(self, dtype: torch.dtype) -> "Problem":
        q, k, v = (x.detach().to(dtype).requires_grad_() for x in (self.q, self.k, self.v))
        keep = None if self.keep is None else self.keep.to(dtype)
        return Problem(q, k, v, self.allowed, self.scale.to(dtype), self.documents, keep)


def _problem(
    *, n: int = 2, b: int = 2, h: int = 2, t: int = 7, width: int = 6, seed: int = 0, spread: float = 1.0,
    dtype: torch.dtype = torch.float32, rate: float = 0.0,
) -> Problem:  # fmt: skip
    """Random q, k, v, a causal mask within documents, the last positions of each second row padded."""
    random = torch.Generator().manual_seed(seed)
    q, k, v = (spread**0.5 * torch.randn(n, b, h, t, width, generator=random, dtype=torch.float64) for _ in "qkv")
    documents = (torch.arange(t) * 2 // max(t, 1)).expand(n, b, t).clone()
    documents[:, 1::2, t - t // 4 :] = -1
    allowed = torch.ones(t, t, dtype=torch.bool).tril() & (documents[..., None] == documents[..., None, :])
    scale = torch.linspace(0.5, 1.0, n, dtype=torch.float64) / math.sqrt(width)
    keep = None
    if rate:
        keep = (torch.rand(n, b, h, t, t, generator=random) >= rate).double() / (1 - rate)
    return Problem(q, k, v, allowed, scale, documents, keep).to(dtype)


def _looped(problem: Problem) -> tuple[Tensor, Arrays]:
    """Output and statistics, one query at a time in float64; a query with no key looks at all alike."""
    p = problem
    n, b, h, t, _ = p.q.shape
    out = torch.zeros_like(p.v, dtype=torch.float64)
    names = ("entropy", "logit_max", "mass_self", "distance", "mass_future", "mass_other_document", "mass_padding")
    stats = {name: torch.zeros(n, b, h, t, dtype=torch.float64) for name in names}
    q, k, v = (x.detach().double() for x in (p.q, p.k, p.v))
    for i, j, m, row in torch.cartesian_prod(*(torch.arange(size) for size in (n, b, h, t))).tolist():
        keys = [s for s in range(t) if p.allowed[i, j, row, s]]
        scores = {s: float(p.scale[i].double() * (q[i, j, m, row] * k[i, j, m, s]).sum()) for s in keys}
        top = max(scores.values(), default=0.0)
        weight = {s: math.exp(score - top) for s, score in scores.items()} or dict.fromkeys(range(t), 1.0)
        total = math.fsum(weight.values())
        here = p.documents[i, j, row]
        for s, share in ((s, w / total) for s, w in weight.items()):
            kept = 1.0 if p.keep is None else float(p.keep[i, j, m, row, s])
            out[i, j, m, row] += share * kept * v[i, j, m, s]
            there = p.documents[i, j, s]
            stats["entropy"][i, j, m, row] -= share * math.log(share) if share else 0.0
            stats["distance"][i, j, m, row] += share * abs(row - s)
            stats["mass_self"][i, j, m, row] += share * (s == row)
            stats["mass_future"][i, j, m, row] += share * (s > row)
            stats["mass_padding"][i, j, m, row] += share * bool(there < 0)
            stats["mass_other_document"][i, j, m, row] += share * bool(there >= 0 and there != here)
        stats["logit_max"][i, j, m, row] = top
    return out, stats


def _plain(problem: Problem) -> tuple[Tensor, Arrays]:
    """Output and statistics by ordinary PyTorch functions in the problem's own precision."""
    p = problem
    scores = (p.q @ p.k.transpose(-1, -2)) * p.scale.view(-1, 1, 1, 1, 1)
    probs = torch.softmax(scores.masked_fill(~p.allowed.unsqueeze(2), -torch.inf), -1)
    kept = probs if p.keep is None else probs * p.keep
    position = torch.arange(probs.shape[-1]).to(probs.dtype)
    stats = {
        "entropy": torch.special.entr(probs).sum(-1),
        "logit_max": scores.masked_fill(~p.allowed.unsqueeze(2), -torch.inf).amax(-1),
        "mass_self": probs.diagonal(dim1=-2, dim2=-1),
        "distance": (probs * (position[:, None] - position).abs()).sum(-1),
    }
    return kept @ p.v, stats


def _gradients(fn: Callable[[Problem], tuple[Tensor, Any]], problem: Problem, d_out: Tensor) -> Arrays:
    """The output, and the gradients of sum(out * d_out)."""
    out = fn(problem)[0]
    grads = torch.autograd.grad(out, (problem.q, problem.k, problem.v), d_out.to(out.dtype))
    return dict(zip(("out", "q", "k", "v"), (out.detach(), *grads), strict=True))


def _within(got: Arrays, plain: Arrays, exact: Arrays, dtype: torch.dtype) -> None:
    """At most twice the plain version's own error; 4 ulps where that is none."""
    assert set(got) == set(plain) == set(exact)
    for name, right in exact.items():
        error = (got[name].double() - right).norm().item()
        own = (plain[name].double() - right).norm().item()
        budget = max(2 * own, 4 * torch.finfo(dtype).eps * right.norm().item())
        assert error <= budget, f"{name}: error {error:.3g}, allowed {budget:.3g}"


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    return _problem


@pytest.fixture(scope="session")
def looped() -> Callable[[Problem], tuple[Tensor, Arrays]]:
    return _looped


@pytest.fixture(scope="session")
def plain() -> Callable[[Problem], tuple[Tensor, Arrays]]:
    return _plain


@pytest.fixture(scope="session")
def gradients() -> Callable[..., Arrays]:
    return _gradients


@pytest.fixture(scope="session")
def assert_within_budget() -> Callable[..., None]:
    return _within
