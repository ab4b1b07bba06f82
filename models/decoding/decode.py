"""Rows that a model goes on with by itself, token after token, through the cache.

Shapes: N runs, B rows, T positions, V vocabulary, P tokens that are given, W = T + 1 - P tokens that are written.
"""

from dataclasses import replace

import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen
from trainwreck.models.decoding.cache import Cache, extend
from trainwreck.models.gpt import Model


def write(
    model: Model,
    given_NBP: Tensor,
    draws_NBW: Tensor,
    prefix: dict[str, Tensor] | None = None,
    temperature_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Go on with rows, each token drawn from what the model says of the next one.

    Returns the tokens, int64 [N, B, W], and the logits that each was drawn from, [N, B, W, V].

    given: int64. draws: uniform on [0, 1), one for each token to write. prefix: weights that the cache of the given
    tokens was made with, by name, where they are not the model's. temperature: what the logits are divided by.
    """
    count = draws_NBW.shape[2]
    cache, logits = _given(model, given_NBP, prefix)
    written, said = [], []
    for i in range(count):
        if temperature_N is not None:
            logits = logits / temperature_N.view(-1, 1, 1)
        token_NB = drawn(logits, draws_NBW[:, :, i])
        written.append(token_NB)
        said.append(logits)
        if i + 1 < count:
            logits = extend(model, cache, token_NB.unsqueeze(2), given_NBP.shape[2] + i)
    return torch.stack(written, 2), torch.stack(said, 2)


def read(model: Model, given_NBP: Tensor, tokens_NBW: Tensor, prefix: dict[str, Tensor] | None = None) -> Tensor:
    """What `write` had said of the next token at each place, had it written these tokens. Logits, [N, B, W, V]."""
    cache, logits = _given(model, given_NBP, prefix)
    found = [logits]
    for i in range(tokens_NBW.shape[2] - 1):
        found.append(extend(model, cache, tokens_NBW[:, :, i : i + 1], given_NBP.shape[2] + i))
    return torch.stack(found, 2)


def drawn(logits_NMV: Tensor, draws_NM: Tensor) -> Tensor:
    """Tokens drawn by the inverse of the distribution function, int64 [N, M]."""
    total = torch.softmax(widen(logits_NMV), -1).cumsum(-1)
    index = (total < draws_NM.to(total.dtype).unsqueeze(-1)).sum(-1)
    return index.clamp(max=logits_NMV.shape[-1] - 1)


def _given(model: Model, given_NBP: Tensor, prefix: dict[str, Tensor] | None) -> tuple[Cache, Tensor]:
    """The cache of the given tokens, and what follows the last of them, logits [N, B, V].

    Of a cache with other weights the last given token is read anew, as a prompt is of which all but its end is found.
    """
    n, b, p = given_NBP.shape
    cache = Cache.empty(model, b)
    logits = extend(model if prefix is None else replace(model, params=prefix), cache, given_NBP, 0)
    if prefix is not None:
        logits = extend(model, cache, given_NBP[:, :, -1:], p - 1)
    return cache, logits.view(n, b, -1, logits.shape[-1])[:, :, -1]
