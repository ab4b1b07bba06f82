"""Singular values of a module's matrices: spectral norms by layer, and entropies of what a head compares.

A head's queries and keys are found in `nn.MultiheadAttention`, and in modules whose projections are children of their
own by the names of `PROJECTIONS`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trainwreck.evaluation.errors import InputError

# Names of the children that project to queries and keys, as Llama, BERT, Meta's and ViT's code and T5 have them.
PROJECTIONS = (("q_proj", "k_proj"), ("query", "key"), ("wq", "wk"), ("to_q", "to_k"), ("q", "k"))
# Names of the number of heads, of the module itself or of its `config`.
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")


@torch.no_grad()
def spectral_norms(layers: Sequence[nn.Module]) -> list[float]:
    """Largest singular value of any matrix of each layer; queries, keys and values in one are matrices apart.

    NaN where a matrix of the layer is not finite, or where it has none.
    """
    return [max(map(_largest, _matrices(layer)), key=_nan_first, default=math.nan) for layer in layers]


@torch.no_grad()
def query_key_entropies(layers: Sequence[nn.Module]) -> list[float]:
    """Entropy of the normalised singular values of W_q W_k^T, nats: of each head of each attention of each layer.

    NaN where a head's weight is not finite, or W_q W_k^T is 0. Where queries share the keys of a group, each counts.
    InputError where an attention does not say how many heads it has. Source: Huang et al. 2026, Mechanism-driven
    monitors.
    """
    found: list[float] = []
    for layer in layers:
        for query, key, heads in _attentions(layer):
            q = query.detach().double().cpu().unflatten(0, (heads, -1))
            k = key.detach().double().cpu().unflatten(0, (-1, q.shape[1]))
            k = k.repeat_interleave(heads // len(k), 0)
            found += [_entropy(one, other) for one, other in zip(q, k, strict=True)]
    return found


def _entropy(query: Tensor, key: Tensor) -> float:
    """Of the singular values of query^T key, each [K, D], by their QR factors."""
    if not (torch.isfinite(query).all() and torch.isfinite(key).all()):
        return math.nan
    r_q, r_k = (torch.linalg.qr(part.T, mode="r").R for part in (query, key))
    values = torch.linalg.svdvals(r_q @ r_k.T)
    share = values / values.sum()
    return float(torch.special.entr(share).sum())


def _largest(matrix: Tensor) -> float:
    wide = matrix.detach().double().cpu()
    if not torch.isfinite(wide).all():
        return math.nan
    gram = wide.T @ wide if wide.shape[0] > wide.shape[1] else wide @ wide.T
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram)[-1])))


def _nan_first(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _matrices(layer: nn.Module) -> Iterator[Tensor]:
    """Weights with two dimensions, those that hold queries, keys and values as three."""
    for name, weight in layer.named_parameters():
        if weight.dim() == 2 and weight.numel():
            yield from weight.chunk(3) if name.rpartition(".")[2] == "in_proj_weight" else (weight,)


def _attentions(layer: nn.Module) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Weights of queries and keys, rows of a head together, and the number of heads."""
    for module in layer.modules():
        if isinstance(module, nn.MultiheadAttention):
            packed: Any = module.in_proj_weight  # None where keys have a width of their own
            pair = (module.q_proj_weight, module.k_proj_weight) if packed is None else packed.chunk(3)[:2]
            yield pair[0], pair[1], module.num_heads
            continue
        children = dict(module.named_children())
        for names in PROJECTIONS:
            query, key = (getattr(children.get(name), "weight", None) for name in names)
            if isinstance(query, Tensor) and isinstance(key, Tensor) and query.dim() == key.dim() == 2:
                yield query, key, _heads(module, query, key)
                break


def _heads(module: nn.Module, query: Tensor, key: Tensor) -> int:
    """As the module or its `config` says, or by the width of a head; InputError where none does."""
    for owner in (module, getattr(module, "config", None)):
        for name in HEADS:
            heads = getattr(owner, name, None)
            if isinstance(heads, int) and _fits(heads, query, key):
                return heads
    width = getattr(module, "head_dim", None)
    if isinstance(width, int) and width > 0 and _fits(len(query) // width, query, key):
        return len(query) // width
    raise InputError(
        f"module: {type(module).__name__} does not say how many heads it has; allowed: one of the attributes "
        f"{', '.join((*HEADS, 'head_dim'))}, here or in config"
    )


def _fits(heads: int, query: Tensor, key: Tensor) -> bool:
    """Whether queries are that many heads, and keys as many or a part of them."""
    if heads < 1 or len(query) % heads:
        return False
    width = len(query) // heads
    return width > 0 and len(key) % width == 0 and heads % (len(key) // width) == 0
