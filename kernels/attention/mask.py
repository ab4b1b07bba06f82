"""Which keys a query may see, for N runs at once, in a form that every implementation understands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

# A masked score. Finite, so that a row in which nothing is allowed is a uniform row and not NaN,
# as in the frameworks that fill with the dtype's minimum; e**MASKED is exactly 0 in every dtype.
MASKED = -1e30

T = TypeVar("T")


class Regions(NamedTuple):
    """Where forbidden attention could land. Needed only where a mask lets something through.

    future_TS: bool. other_document_NBTS, padding_NBTS: bool.
    """

    future_TS: Tensor
    other_document_NBTS: Tensor
    padding_NBTS: Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """What one forward pass masks. The default is causal attention within one document.

    documents_NBT: int64, the document of each token, -1 for padding, under 2**24; None is one document.
    allowed_NTS: bool, [N or 1, T, S], keys that a query may see; None is causal.
    documents_N: bool, runs in which other documents and padding are masked; None is all of them.
    leaky: some run may let a query see the future, another document or padding, so those masses are
    measured, of every query, padding included; without it they count as 0: what is masked is exactly that, and
    what positions of padding see of each other, being one document, is not counted.

    What is derived from it is kept, so one mask serves all layers at the cost of one.
    """

    documents_NBT: Tensor | None = None
    allowed_NTS: Tensor | None = None
    documents_N: Tensor | None = None
    leaky: bool = False
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def plain(self) -> bool:
        """Causal and within documents for every run, with nothing forbidden to measure."""
        return self.allowed_NTS is None and self.documents_N is None and not self.leaky

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` makes, made the first time only."""
        if key not in self._derived:
            self._derived[key] = make()
        made: T = self._derived[key]
        return made

    def bias(self, t: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """What is added to the scores, [N or 1, B or 1, T, S]. MASKED twice is masked."""
        return self.once(f"bias {t} {dtype}", lambda: self._bias(t, dtype, device))

    def regions(self, t: int, device: torch.device) -> Regions | None:
        """The forbidden regions, where some run leaks."""
        return self.once(f"regions {t}", lambda: self._regions(t, device)) if self.leaky else None

    def table(self, t: int, device: torch.device) -> Tensor:
        """allowed_NTS, also where that is causal, as contiguous int32, [N or 1, T, S].

        Not as bytes: the narrowest number that a product's operand is made from decides how Triton deals it out to
        threads, and by bytes it gives each more of a row than there is.
        """
        return self.once(f"table {t}", lambda: self._allowed(t, device).to(torch.int32).contiguous())

    def short_documents(self) -> Tensor | None:
        """documents_NBT as contiguous int32."""
        ids = self.documents_NBT
        return None if ids is None else self.once("documents", lambda: ids.to(torch.int32).contiguous())

    def check(self, n: int, b: int, t: int, device: torch.device) -> None:
        """ValueError for the first part that doesn't fit N runs of B rows of T positions."""
        wanted = (
            ("documents", self.documents_NBT, torch.int64, ((n, b, t),)),
            ("allowed", self.allowed_NTS, torch.bool, ((n, t, t), (1, t, t))),
            ("documents_N", self.documents_N, torch.bool, ((n,),)),
        )
        for name, tensor, dtype, shapes in wanted:
            if tensor is None:
                continue
            if tuple(tensor.shape) not in shapes:
                allowed = " or ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
                raise ValueError(f"mask.{name}: shape {tuple(tensor.shape)} is not allowed; allowed: {allowed}")
            if tensor.dtype != dtype or tensor.device != device:
                raise ValueError(
                    f"mask.{name}: {tensor.dtype} on {tensor.device} is not allowed; allowed: {dtype} on {device}"
                )

    def _allowed(self, t: int, device: torch.device) -> Tensor:
        if self.allowed_NTS is not None:
            return self.allowed_NTS
        return torch.ones(1, t, t, dtype=torch.bool, device=device).tril()

    def _bias(self, t: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        by_position = mask_bias(self._allowed(t, device), dtype).unsqueeze(1)
        if self.documents_NBT is None:
            return by_position
        bias = document_bias(self.documents_NBT, dtype)
        if self.documents_N is not None:
            bias.mul_(self.documents_N.to(dtype).view(-1, 1, 1, 1))
        return bias.add_(by_position)

    def _regions(self, t: int, device: torch.device) -> Regions:
        future = torch.ones(t, t, dtype=torch.bool, device=device).triu(1)
        if self.documents_NBT is None:
            none = torch.zeros(1, 1, t, t, dtype=torch.bool, device=device)
            return Regions(future, none, none)
        same = self.documents_NBT.unsqueeze(3) == self.documents_NBT.unsqueeze(2)
        padding = (self.documents_NBT < 0).unsqueeze(2).expand_as(same)
        return Regions(future, ~same & ~padding, padding)


def mask_bias(allowed: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """0 where a key is allowed, MASKED where it is not. allowed: bool, [..., T, S]."""
    return (~allowed).to(dtype) * MASKED


def document_bias(documents_NBT: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """0 between tokens of one document, MASKED between others, [N, B, T, S].

    Ids are whole numbers, so documents differ by 1 or more: arithmetic on floats is vectorised where
    comparing and selecting are not.
    """
    ids = documents_NBT.to(dtype)
    return (ids.unsqueeze(3) - ids.unsqueeze(2)).abs_().clamp_(max=1.0).mul_(MASKED)
