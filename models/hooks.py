"""The four points of the forward pass at which a fault can act; without one, each is the identity.

A point is told its site, the name of a place in the model: `layer_0.attention`, `layer_0.mlp` or `head` at
`branch` and `shortcut`, the norm's own name (`layer_0.mlp_norm`, `final_norm`) at `norm`, `layer_0` at `stream`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Edit = Callable[[Tensor, str], Tensor]  # x [N, M, D] and its site to what goes on in its place
NormEdit = Callable[[Edit], Edit]  # a norm without gain and shift to the one that is used instead

BRANCHES = ("attention", "mlp")


@dataclass(frozen=True)
class Hooks:
    """What acts at each point, in order: a later one acts on what an earlier one left.

    norms: on the norms. branches: on what attention, MLP and head put out. shortcuts: on what goes past
    attention and MLP. streams: on the residual stream after a layer.
    """

    norms: tuple[NormEdit, ...] = ()
    branches: tuple[Edit, ...] = ()
    shortcuts: tuple[Edit, ...] = ()
    streams: tuple[Edit, ...] = ()

    def norm(self, right: Edit) -> Edit:
        """The norm to use where `right` is the good one."""
        for edit in self.norms:
            right = edit(right)
        return right

    def branch(self, x: Tensor, site: str) -> Tensor:
        """What a branch adds to the stream, or the logits that the head puts out."""
        for edit in self.branches:
            x = edit(x, site)
        return x

    def shortcut(self, x: Tensor, site: str) -> Tensor:
        """What goes past a branch."""
        for edit in self.shortcuts:
            x = edit(x, site)
        return x

    def stream(self, x: Tensor, site: str) -> Tensor:
        """The residual stream after a layer."""
        for edit in self.streams:
            x = edit(x, site)
        return x


def by_site(table_NL2: Tensor, ending: str = "") -> dict[str, Tensor]:
    """One number a run for attention and MLP of every layer, each [N, 1, 1], by site."""
    return {
        f"layer_{i}.{branch}{ending}": table_NL2[:, i, j].view(-1, 1, 1)
        for i in range(table_NL2.shape[1])
        for j, branch in enumerate(BRANCHES)
    }
