"""What monitors read of weights and updates: spectral norms and entropies, and how far each group of parameters moves.

Spectral norms are those of power iteration (Miyato et al. 2018, Spectral normalization), from one fixed vector in
place of one that is kept from step to step, so that they do not depend on where a run was entered. Its
`2 ** SQUARINGS` rounds are done by squaring the Gram matrices, which all have the model's width. Groups are those that
optimizers tell apart (Jordan et al. 2024, Muon).

Spectral entropies are those of the bilinear form by which a head compares its queries with keys (Huang et al. 2026,
Mechanism-driven monitors). The host takes them, since a device would have to be waited for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from trainwreck.kernels.dtypes import widen
from trainwreck.kernels.norms import Segments, segment_statistics
from trainwreck.kernels.random import generator
from trainwreck.kernels.selection import choose
from trainwreck.models import muon
from trainwreck.models.parameters import LORA_A, LORA_B, Layout

SQUARINGS = 8
SMALLEST = 1e-30


@dataclass
class Matrices:
    """The matrices of a layout's layers, which are alike in every layer, and the groups of all parameters."""

    plan: Layout
    device: torch.device

    @torch.no_grad()
    def spectral_norm(self, flat_NP: Tensor) -> Tensor:
        """Largest singular value of any matrix of each layer, [N, L]; queries, keys and values are matrices apart.

        It is estimated from below. NaN where a weight of the layer is not finite. Adapters are neither matrices of
        their own nor added to the one that they change.
        """
        layers = self._layers(flat_NP)
        grams = []
        for matrix in self._hidden:
            weight = layers[..., matrix.start : matrix.stop].unflatten(-1, (matrix.rows, matrix.parts, matrix.columns))
            x = weight.transpose(-3, -2)
            square = x @ x.transpose(-1, -2) if matrix.rows == self._width else x.transpose(-1, -2) @ x
            grams.append(square)
        gram = torch.cat(grams, 2).flatten(0, 2)  # [N L M, D, D]
        power = gram / _trace(gram)
        for _ in range(SQUARINGS):
            power = power @ power
            power = power / _trace(power)
        vector = (power * self._vector.to(gram.dtype)).sum(-1)
        seen = (gram * vector.unsqueeze(-2)).sum(-1)
        squared = (vector * seen).sum(-1) / vector.square().sum(-1).clamp(min=SMALLEST)
        norm: Tensor = squared.clamp(min=0).sqrt().view(*layers.shape[:2], -1).amax(2)
        return norm

    @torch.no_grad()
    def query_key(self, flat_NP: Tensor) -> Tensor:
        """Weights of queries and keys of each layer, [N, L, D, 2 D]; adapters are not added."""
        qkv = next(matrix for matrix in self._hidden if matrix.parts == 3)
        weight = self._layers(flat_NP)[..., qkv.start : qkv.stop].unflatten(-1, (qkv.rows, 3 * qkv.columns))
        return widen(weight[..., : 2 * qkv.columns])

    @torch.no_grad()
    def rms(self, update_NP: Tensor) -> Tensor:
        """Root mean square of each group of `schema.GROUPS`, [N, 4]; NaN for one that the model does not have."""
        square = update_NP.square()
        layers = self._layers(square)
        hidden = sum((layers[..., a:b].sum((1, 2)) for a, b in self._spans), start=torch.zeros_like(square[:, 0]))
        sums = [hidden, *(square[:, a:b].sum(1) for a, b in self._tables), square[:, self._vectors].sum(1)]
        rms: Tensor = (torch.stack(sums, 1) / self._counts).sqrt()
        return rms

    @torch.no_grad()
    def moved(self, update_NP: Tensor, impl: str | None = None) -> tuple[Tensor, Tensor]:
        """Norm of each segment of the layout, [N, S], and `rms`; compiled kernels find both in one pass.

        impl: of the kernels.
        """
        if choose(impl, update_NP) == "reference":
            return segment_statistics(update_NP, self.plan.bounds, impl=impl).norm_NS, self.rms(update_NP)
        squares = segment_statistics(update_NP, self._pieces, impl=impl).norm_NS.square()
        sums = torch.where(self._belongs, squares.unsqueeze(2), 0.0).sum(1)
        segments = len(self.plan.bounds)
        return sums[:, :segments].sqrt(), (sums[:, segments:] / self._counts).sqrt()

    def _layers(self, flat_NP: Tensor) -> Tensor:
        """The layers' parameters, [N, L, K]."""
        bounds = self.plan.bounds[1:-1]
        layers: Tensor = flat_NP[:, bounds[0][0] : bounds[-1][1]].unflatten(1, (len(bounds), -1))
        return layers

    @cached_property
    def _first(self) -> list[muon.Matrix]:
        """Matrices of the first layer, in places of that layer."""
        start, stop = self.plan.bounds[1]
        found = [matrix for matrix in muon.matrices(self.plan) if start <= matrix.start < stop]
        return [matrix._replace(start=matrix.start - start, stop=matrix.stop - start) for matrix in found]

    @cached_property
    def _hidden(self) -> list[muon.Matrix]:
        """Those of `_first` that are no adapter's."""
        start = self.plan.bounds[1][0]
        adapters = {slot.start - start for slot in self.plan.slots if slot.name.endswith((LORA_A, LORA_B))}
        return [matrix for matrix in self._first if matrix.start not in adapters]

    @cached_property
    def _width(self) -> int:
        return self.plan.slots[0].shape[-1]

    @cached_property
    def _vector(self) -> Tensor:
        """Where power iteration starts, [D], float64."""
        draws = generator(0, "spectral_norm").standard_normal(self._width)
        return torch.from_numpy(draws).to(self.device)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """Places in a layer that matrices take; neighbours as one."""
        spans: list[tuple[int, int]] = []
        for matrix in self._first:
            joined = bool(spans) and spans[-1][1] == matrix.start
            start = spans.pop()[0] if joined else matrix.start
            spans.append((start, matrix.stop))
        return spans

    @cached_property
    def _tables(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Places of embedding and head; where the head is the embedding it has none."""
        head = next((slot for slot in self.plan.slots if slot.name == "head.weight"), None)
        return self.plan.bounds[0], (0, 0) if head is None else (head.start, head.stop)

    @cached_property
    def _vectors(self) -> Tensor:
        """Places of all parameters that are in no other group, int64."""
        taken = np.zeros(self.plan.size, bool)
        for start, stop in (*self._tables, *((matrix.start, matrix.stop) for matrix in muon.matrices(self.plan))):
            taken[start:stop] = True
        return torch.from_numpy(np.flatnonzero(~taken)).to(self.device)

    @cached_property
    def _pieces(self) -> Segments:
        """Places of single parameters."""
        return tuple((slot.start, slot.stop) for slot in self.plan.slots)

    @cached_property
    def _belongs(self) -> Tensor:
        """Whether a parameter is in each segment of the layout and in each group, bool [parameters, S + 4]."""
        layers = self.plan.bounds[1][0], self.plan.bounds[-2][1]
        matrices = {m.start for m in muon.matrices(self.plan)}
        rows = []
        for start, _ in self._pieces:
            within = [a <= start < b for a, b in self.plan.bounds]
            tables = [a <= start < b for a, b in self._tables]
            hidden = start in matrices and layers[0] <= start < layers[1]
            rows.append([*within, hidden, *tables, start not in matrices and not any(tables)])
        return torch.tensor(rows, device=self.device)

    @cached_property
    def _counts(self) -> Tensor:
        """Parameters of each group, [4]; 0 makes the mean NaN."""
        hidden = (len(self.plan.bounds) - 2) * sum(b - a for a, b in self._spans)
        counts = [hidden, *(b - a for a, b in self._tables), len(self._vectors)]
        return torch.tensor(counts, device=self.device, dtype=torch.float32)


def spectral_entropy(weight_NLDE: np.ndarray, heads: int) -> np.ndarray:
    """Entropy of the normalised singular values of W_q W_k^T of each head, [N, L * heads], of `Matrices.query_key`.

    From 0, where one direction decides what is attended to, to the logarithm of the head's width. NaN where a head's
    weight is not finite, or W_q W_k^T is 0.
    """
    n, layers, width, _ = weight_NLDE.shape
    parts = weight_NLDE.astype(np.float64).reshape(n, layers, width, 2, heads, -1)
    q, k = np.moveaxis(parts, (3, 4, 2), (0, 3, 4))  # [N, L, H, D, K] each
    finite = (np.isfinite(q) & np.isfinite(k)).all((-2, -1))[..., None, None]
    # Singular values of Q R_q (Q' R_k)^T are those of R_q R_k^T.
    r_q, r_k = (np.linalg.qr(np.where(finite, part, 0.0), mode="r") for part in (q, k))
    values = np.linalg.svd(r_q @ np.swapaxes(r_k, -1, -2), compute_uv=False)
    with np.errstate(invalid="ignore"):
        share = values / values.sum(-1, keepdims=True)
    entropy = -np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0).sum(-1)
    found: np.ndarray = np.where(values.sum(-1) > 0, entropy, np.nan).reshape(n, -1)
    return found


def _trace(gram: Tensor) -> Tensor:
    """Of each matrix, [B, 1, 1], at least `SMALLEST`."""
    trace: Tensor = gram.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=SMALLEST)
    return trace[:, None, None]
