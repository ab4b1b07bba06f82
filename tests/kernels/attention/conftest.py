"""Attention from the definition: a float64 loop over queries, and plain PyTorch in any precision."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from trainwreck.kernels.attention import AttentionStats, Dropout, Mask, attention

Arrays = dict[str, Tensor]

# It has a kernel of its own.
collect_ignore = [] if find_spec("triton") else ["test_triton_dropout.py"]


@dataclass
class Problem:
    """q, k, v [N, B, H, T, K]; scale [N]; a mask with documents; dropout or None."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: Tensor
    mask: Mask
    dropout: Dropout | None = None

    def to(self, dtype: torch.dtype) -> "Problem":
        """In another precision; scale and rates as wide as the sums."""
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        q, k, v = (x.detach().to(dtype, copy=True).requires_grad_() for x in (self.q, self.k, self.v))
        dropout = None if self.dropout is None else replace(self.dropout, rate_N=self.dropout.rate_N.to(wide))
        return Problem(q, k, v, self.scale.to(wide), self.mask, dropout)

    def run(self, i: int) -> "Problem":
        """One run alone."""
        q, k, v = (x[i : i + 1].detach().requires_grad_() for x in (self.q, self.k, self.v))
        m, d = self.mask, self.dropout
        parts = {
            name: value[i : i + 1]
            for name in ("documents_NBT", "allowed_NTS", "documents_N")
            if (value := getattr(m, name)) is not None
        }
        dropout = None if d is None else Dropout(d.keys_N[i : i + 1], d.step, d.rate_N[i : i + 1])
        return Problem(q, k, v, self.scale[i : i + 1], Mask(**parts, leaky=m.leaky), dropout)

    @property
    def documents(self) -> Tensor:
        ids = self.mask.documents_NBT
        return torch.zeros_like(self.q[:, :, 0, :, 0], dtype=torch.int64) if ids is None else ids

    @property
    def hidden(self) -> Tensor:
        """How many of the two masks hide a key, [N, B, T, S]."""
        t, ids, m = self.q.shape[3], self.documents, self.mask
        causal = torch.ones(1, t, t, dtype=torch.bool, device=ids.device).tril()
        table = causal if m.allowed_NTS is None else m.allowed_NTS
        other = ids[..., None] != ids[..., None, :]
        if m.documents_N is not None:
            other = other & m.documents_N.view(-1, 1, 1, 1)
        return (~table).unsqueeze(1).int() + other.int()

    @property
    def allowed(self) -> Tensor:
        """bool, [N, B, T, S]."""
        return self.hidden == 0

    @property
    def keep(self) -> Tensor | None:
        _, b, h, t, _ = self.q.shape
        return None if self.dropout is None else self.dropout.mask(b, h, t)


def _problem(
    *, n: int = 2, b: int = 2, h: int = 2, t: int = 7, width: int = 6, seed: int = 0, spread: float = 1.0,
    dtype: torch.dtype = torch.float32, rate: float = 0.0, device: str = "cpu", mask: dict[str, Any] | None = None,
) -> Problem:  # fmt: skip
    """Random q, k, v, a causal mask within documents, the last positions of each second row padded."""
    random = torch.Generator().manual_seed(seed)
    q, k, v = (spread**0.5 * torch.randn(n, b, h, t, width, generator=random, dtype=torch.float64) for _ in "qkv")
    documents = (torch.arange(t) * 2 // max(t, 1)).expand(n, b, t).clone()
    documents[:, 1::2, t - t // 4 :] = -1
    scale = torch.linspace(0.5, 1.0, n) / math.sqrt(width)
    dropout = None
    if rate:
        keys = torch.randint(-(2**62), 2**62, (n,), generator=random)
        dropout = Dropout(keys.to(device), 5 + seed, torch.full((n,), rate, device=device))
    parts = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in (mask or {}).items()}
    parts = {"documents_NBT": documents.to(device)} | parts
    made = Problem(*(x.to(device) for x in (q, k, v, scale)), Mask(**parts), dropout)
    return made.to(dtype)


def _attended(problem: Problem, **changed: Any) -> tuple[Tensor, AttentionStats | None]:
    """`attention` of a problem."""
    p = problem
    return attention(p.q, p.k, p.v, mask=p.mask, scale_N=p.scale, dropout=p.dropout, **changed)


def _looped(problem: Problem) -> tuple[Tensor, Arrays]:
    """Output and statistics, one query at a time in float64.

    A query with no key looks at all keys alike that one mask alone hides, as where masks are added.
    """
    p = problem
    n, b, h, t, _ = p.q.shape
    out = torch.zeros_like(p.v, dtype=torch.float64)
    names = ("entropy", "logit_max", "lse", "mass_self", "distance")
    names += ("mass_future", "mass_other_document", "mass_padding")
    stats = {name: torch.zeros(n, b, h, t, dtype=torch.float64) for name in names}
    q, k, v, hidden, keep = (None if x is None else x.detach() for x in (p.q, p.k, p.v, p.hidden, p.keep))
    q, k, v = q.double(), k.double(), v.double()
    for i, j, m, row in torch.cartesian_prod(*(torch.arange(size) for size in (n, b, h, t))).tolist():
        fewest = int(hidden[i, j, row].min())
        nearest = [s for s in range(t) if hidden[i, j, row, s] == fewest]
        keys = nearest if fewest == 0 else []
        scores = {s: float(p.scale[i].double() * (q[i, j, m, row] * k[i, j, m, s]).sum()) for s in keys}
        top = max(scores.values(), default=0.0)
        weight = {s: math.exp(score - top) for s, score in scores.items()} or dict.fromkeys(nearest, 1.0)
        total = math.fsum(weight.values())
        here = p.documents[i, j, row]
        for s, share in ((s, w / total) for s, w in weight.items()):
            kept = 1.0 if keep is None else float(keep[i, j, m, row, s])
            out[i, j, m, row] += share * kept * v[i, j, m, s]
            other = p.documents[i, j, s]
            stats["entropy"][i, j, m, row] -= share * math.log(share) if share else 0.0
            stats["distance"][i, j, m, row] += share * abs(row - s)
            stats["mass_self"][i, j, m, row] += share * (s == row)
            stats["mass_future"][i, j, m, row] += share * (s > row)
            stats["mass_padding"][i, j, m, row] += share * bool(other < 0)
            stats["mass_other_document"][i, j, m, row] += share * bool(other >= 0 and other != here)
        stats["logit_max"][i, j, m, row] = top
        stats["lse"][i, j, m, row] = top + math.log(total)
    return out, stats


def _plain(problem: Problem) -> tuple[Tensor, Arrays]:
    """Output and statistics by ordinary PyTorch functions in the problem's own precision."""
    p = problem
    scores = (p.q @ p.k.transpose(-1, -2)) * p.scale.to(p.q.dtype).view(-1, 1, 1, 1, 1)
    hidden = ~p.allowed.unsqueeze(2)
    probs = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
    kept = probs if p.keep is None else probs * p.keep.to(probs.dtype)
    position = torch.arange(probs.shape[-1], device=probs.device).to(probs.dtype)
    stats = {
        "entropy": torch.special.entr(probs).sum(-1),
        "logit_max": scores.masked_fill(hidden, -torch.inf).amax(-1),
        "lse": scores.masked_fill(hidden, -torch.inf).logsumexp(-1),
        "mass_self": probs.diagonal(dim1=-2, dim2=-1),
        "distance": (probs * (position[:, None] - position).abs()).sum(-1),
    }
    return kept @ p.v, stats


def _gradients(fn: Callable[[Problem], tuple[Tensor, Any]], problem: Problem, d_out: Tensor) -> Arrays:
    """The output, and the gradients of sum(out * d_out)."""
    out = fn(problem)[0]
    grads = torch.autograd.grad(out, (problem.q, problem.k, problem.v), d_out.to(out))
    return dict(zip(("out", "q", "k", "v"), (out.detach(), *grads), strict=True))


def _magnitudes(problem: Problem, d_out: Tensor) -> Arrays:
    """The output and gradients with every term of every sum positive: rounding scales with these.

    A score is a sum too: its rounding, in ulps its terms' magnitude, is a relative error of the probability. Four ulps
    of what is returned hold one ulp of the scores.
    """
    p = problem.to(torch.float64)
    q, k, v, d_out = (x.detach().double().abs() for x in (p.q, p.k, p.v, d_out))
    scale = p.scale.abs().view(-1, 1, 1, 1, 1)
    scores = (p.q @ p.k.transpose(-1, -2)).detach() * p.scale.view(-1, 1, 1, 1, 1)
    probs = torch.softmax(scores - 1e30 * p.hidden.unsqueeze(2), -1)
    probs = probs * (1 + (q @ k.transpose(-1, -2)) * scale / 4)
    kept = probs if p.keep is None else probs * p.keep
    out = kept @ v
    d_probs = d_out @ v.transpose(-1, -2) * (1 if p.keep is None else p.keep)
    d_scores = probs * (d_probs + (d_out * out).sum(-1, keepdim=True)) * scale
    return {"out": out, "q": d_scores @ k, "k": d_scores.transpose(-1, -2) @ q, "v": kept.transpose(-1, -2) @ d_out}


def _within(got: Arrays, plain: Arrays, exact: Arrays, dtype: torch.dtype, magnitudes: Arrays | None = None) -> None:
    """At most twice the plain version's own error; where that is none, 4 ulps of what is summed."""
    assert set(got) == set(plain) == set(exact)
    for name, right in exact.items():
        error = (got[name].double() - right).norm().item()
        own = (plain[name].double() - right).norm().item()
        summed = right if magnitudes is None else magnitudes[name]
        budget = max(2 * own, 4 * torch.finfo(dtype).eps * summed.norm().item())
        assert error <= budget, f"{name}: error {error:.3g}, allowed {budget:.3g}"


@pytest.fixture(autouse=True)
def _nothing_is_zero_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is not written holds NaN."""

    def poisoned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def made(*args: Any, **kwargs: Any) -> Tensor:
            fresh = make(*args, **kwargs)
            return fresh.fill_(torch.nan) if fresh.is_floating_point() else fresh.fill_(1 << 6)

        return made

    for owner, name in ((torch, "empty"), (torch, "empty_like"), (Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, poisoned(getattr(owner, name)))


CUDA = torch.cuda.is_available()
COMPILED = pytest.mark.skipif(CUDA, reason="kernels are compiled here, not interpreted")
ABSENT = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs a CUDA device")]


@pytest.fixture(
    params=[
        pytest.param("cpu", marks=[COMPILED, ABSENT]),
        pytest.param("cuda", marks=ON_GPU),
    ],
    scope="session",
)
def device(request: pytest.FixtureRequest) -> str:
    """Where a Triton kernel is tried: in the interpreter, or on a GPU."""
    return request.param


@pytest.fixture(
    params=[torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=ON_GPU)], ids=str, scope="session"
)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """What the kernels take. The interpreter's products of bfloat16 are wrong."""
    return request.param


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    return _problem


@pytest.fixture(scope="session")
def attended() -> Callable[..., tuple[Tensor, AttentionStats | None]]:
    return _attended


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
def magnitudes() -> Callable[..., Arrays]:
    return _magnitudes


@pytest.fixture(scope="session")
def assert_within_budget() -> Callable[..., None]:
    return _within
