"""What stands between the weights that are trained and the weights that compute, and between gradient and update.

Both are optional tensors with one row a run; None is the ordinary way, which costs nothing. N runs, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainwreck.models.parameters import Layout

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Parametrization:
    """The weights that compute: trained[index] * gain + shift, each part None where it changes nothing.

    index_NP: int64, which trained weight stands in each place. gain_NP, shift_NP: float.
    """

    index_NP: Tensor | None = None
    gain_NP: Tensor | None = None
    shift_NP: Tensor | None = None

    def apply(self, trained_NP: Tensor) -> Tensor:
        """The weights that compute, [N, P]."""
        used = trained_NP if self.index_NP is None else taken(trained_NP, self.index_NP)
        used = used if self.gain_NP is None else used * self.gain_NP
        return used if self.shift_NP is None else used + self.shift_NP

    def scaled(self, places: Tensor, factor: float, size: int) -> Parametrization:
        """The parametrization of one run with the weights in these places, of `size` in all, times a factor."""
        import torch

        gain = torch.ones(1, size) if self.gain_NP is None else self.gain_NP.clone()
        gain[:, places.flatten()] *= factor
        return replace(self, gain_NP=gain)

    def moved(self, to: Tensor, origin: Tensor, size: int) -> Parametrization:
        """With the weights from `origin` in the places `to`; what lies elsewhere stays."""
        import torch

        index = torch.arange(size).unsqueeze(0) if self.index_NP is None else self.index_NP
        changed = index.clone()
        changed[:, to.flatten()] = index[:, origin.flatten()]
        return replace(self, index_NP=changed)

    def shifted(self, places: Tensor, amount: float, size: int) -> Parametrization:
        """With an amount added to the weights in these places."""
        import torch

        shift = torch.zeros(1, size) if self.shift_NP is None else self.shift_NP.clone()
        shift[:, places.flatten()] += amount
        return replace(self, shift_NP=shift)


def taken(trained_NP: Tensor, index_NP: Tensor) -> Tensor:
    """trained_NP.gather(1, index_NP), with a gradient that is the same each time on a GPU too.

    Where a weight computes in several places, `gather` adds their gradients on CUDA by atomic operations, in any order
    (PyTorch's documentation, `torch.use_deterministic_algorithms`). The gradient of an index is put with `accumulate`,
    which sorts first (ATen, `_index_put_impl_`). On a CPU it is the other way about, if there are several threads.
    """
    if trained_NP.device.type == "cpu":
        return trained_NP.gather(1, index_NP)
    return indexed(trained_NP, index_NP)


def indexed(trained_NP: Tensor, index_NP: Tensor) -> Tensor:
    """`taken` by an index of all runs' weights as one row."""
    import torch

    n, p = trained_NP.shape
    offset = torch.arange(n, device=trained_NP.device).unsqueeze(1) * p
    return trained_NP.flatten()[(index_NP + offset).flatten()].view(index_NP.shape)


@dataclass
class Updates:
    """The way from a gradient to the weights.

    gain_N: float, factor on the gradient. reaches_NP: bool, elsewhere no gradient arrives and weight and
    moments are left alone, as under requires_grad=False. kept_N: bool, gradients are not cleared, each
    step's is added to all before. moves_NP: bool, elsewhere the gradient is there and the weight stays.
    decays_NP: float, 1 where weight decay applies in place of the layout's choice. rows_N: int64, of how many of the
    batch's rows, from the first on, the gradient is; the loss is of all.
    """

    gain_N: Tensor | None = None
    reaches_NP: Tensor | None = None
    kept_N: Tensor | None = None
    moves_NP: Tensor | None = None
    decays_NP: Tensor | None = None
    rows_N: Tensor | None = None

    def arrive(self, grads_NP: Tensor, carried_NP: Tensor | None) -> Tensor:
        """The gradient that the optimizer finds; `carried` is what was there before the step."""
        if self.gain_N is not None:
            grads_NP = grads_NP * self.gain_N.unsqueeze(1)
        if self.reaches_NP is not None:
            grads_NP = grads_NP.where(self.reaches_NP, 0.0)
        if self.kept_N is not None and carried_NP is not None:
            grads_NP = (grads_NP + carried_NP).where(self.kept_N.unsqueeze(1), grads_NP)
        return grads_NP

    def counted(self, weights_NM: Tensor, context: int) -> Tensor:
        """Weights of the tokens that the gradient is of; context: tokens of a row."""
        if self.rows_N is None:
            return weights_NM
        import torch

        row_M = torch.arange(weights_NM.shape[1], device=weights_NM.device) // context
        return weights_NM.where(row_M < self.rows_N.unsqueeze(1), 0.0)


def projections(plan: Layout, layer: int, heads: int) -> Tensor:
    """Where a layer's queries, keys and values are made: int64, [D + 1, 3, H, K], the last row the biases.

    [D, 3, H, K] for a model without biases.
    """
    import torch

    name = f"layer_{layer}.qkv"
    places = plan.places(f"{name}.weight")
    if any(slot.name == f"{name}.bias" for slot in plan.slots):
        places = torch.cat((places, plan.places(f"{name}.bias").unsqueeze(0)))
    return places.view(len(places), 3, heads, -1)
