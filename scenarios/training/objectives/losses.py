"""What the forward pass of a training step hands on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor


class Losses(NamedTuple):
    """Of a step: loss and objective, whose gradient is taken, [N]; of each token, [N, M]; largest: only if recorded.

    signals: those of `schema.OF_OBJECTIVES` that such runs have, each [N]. weights: of the tokens, [N, M], where they
    are not those of the batch.
    """

    loss: Tensor
    objective: Tensor
    nll: Tensor
    log_z: Tensor
    largest: Tensor | None
    signals: Mapping[str, Tensor] = MappingProxyType({})
    weights: Tensor | None = None
