"""What one forward pass leaves behind for telemetry."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainwreck.kernels.attention import AttentionStats, reduce


@dataclass
class Probe:
    """Statistics of attention, residual stream and MLP units, one entry a layer.

    saturated, flushed: shares of the values of an operand, [N], one entry a cast to float8.
    """

    attention: list[AttentionStats] = field(default_factory=list)
    stream: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    fired: list[Tensor] = field(default_factory=list)
    saturated: list[Tensor] = field(default_factory=list)
    flushed: list[Tensor] = field(default_factory=list)

    @torch.no_grad()
    def see_stream(self, x_NMD: Tensor) -> None:
        """Look at the residual stream after a layer: mean, norm, largest and least."""
        flat = x_NMD.detach().flatten(1)
        norm = torch.linalg.vector_norm(flat, dim=1) / flat.shape[1] ** 0.5
        self.stream.append((flat.mean(1), norm, flat.amax(1), flat.amin(1)))

    @torch.no_grad()
    def see_hidden(self, hidden_NMF: Tensor) -> None:
        """Look at a layer's MLP units: the most that each fires, over the tokens of the batch."""
        self.fired.append(hidden_NMF.detach().amax(1))

    @torch.no_grad()
    def see_cast(self, scaled: Tensor, cast: Tensor, past: float) -> None:
        """Look at a cast, [N, A, B]: the shares of values past the largest number, and of those made 0."""
        self.saturated.append((scaled.abs() > past).float().mean((1, 2)))
        self.flushed.append(((scaled != 0) & (cast == 0)).float().mean((1, 2)))

    @torch.no_grad()
    def reduce(self) -> dict[str, Tensor]:
        """Every statistic by the name of its signal, each [N, L] ([N, L * H] for head_entropy)."""
        mean, norm, high, low = (torch.stack(parts, 1) for parts in zip(*self.stream, strict=True))
        none = torch.full_like(norm[:, 0], torch.nan)
        return reduce(self.attention) | {
            "float8_saturated": torch.stack(self.saturated, 1).amax(1) if self.saturated else none,
            "float8_flushed": torch.stack(self.flushed, 1).amax(1) if self.flushed else none,
            "activation_mean": mean,
            "activation_std": (norm**2 - mean**2).clamp(min=0).sqrt(),
            "activation_max": torch.maximum(high, -low),
            # A unit is dead on a batch when it is over 0 for no token.
            "dead_share": (torch.stack(self.fired, 1) <= 0).float().mean(2),
        }
