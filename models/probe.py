"""What one forward pass leaves behind for telemetry."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainwreck.kernels.attention import AttentionStats, reduce
from trainwreck.kernels.units import describe
from trainwreck.models.experts.routing import Routes

# Signal of routers to what is taken of the layers.
ROUTES: dict[str, Callable[..., Tensor]] = {
    "expert_load_entropy": torch.amin, "expert_load_max": torch.amax, "expert_dropped": torch.amax,
    "router_logit_norm": torch.amax, "balance_loss": torch.mean,
}  # fmt: skip


@dataclass
class Probe:
    """Statistics of attention, residual stream and MLP units, one entry a layer.

    saturated, flushed: shares of the values of an operand, [N], one entry a cast to float8. routes: what `ROUTES` are
    made of, each [N]. impl: of the kernels.
    """

    attention: list[AttentionStats] = field(default_factory=list)
    stream: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    fired: list[Tensor] = field(default_factory=list)
    saturated: list[Tensor] = field(default_factory=list)
    flushed: list[Tensor] = field(default_factory=list)
    routes: list[tuple[Tensor, ...]] = field(default_factory=list)
    impl: str | None = None

    @torch.no_grad()
    def see_stream(self, x_NMD: Tensor) -> None:
        """Look at the residual stream after a layer: mean, norm, largest and least."""
        self.stream.append(describe(x_NMD.detach().flatten(1), self.impl))

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
    def see_routes(self, routes: Routes, balance_N: Tensor) -> None:
        """Look at where a layer's tokens go: how even the shares are, what is dropped, how large logits are."""
        share = routes.share_NE
        entropy = -torch.where(share > 0, share * share.log(), 0.0).sum(1)
        dropped = routes.dropped.to(share.dtype).mean((1, 2))
        length = torch.linalg.vector_norm(routes.logits_NME, dim=2).mean(1)
        self.routes.append((entropy, share.amax(1), dropped, length, balance_N.detach()))

    @torch.no_grad()
    def reduce(self) -> dict[str, Tensor]:
        """Every statistic by the name of its signal, each [N, L] ([N, L * H] for head_entropy)."""
        mean, norm, high, low = (torch.stack(parts, 1) for parts in zip(*self.stream, strict=True))
        none = torch.full_like(norm[:, 0], torch.nan)
        routes = dict.fromkeys(ROUTES, none)
        if self.routes:
            layers = [torch.stack(parts, 1) for parts in zip(*self.routes, strict=True)]
            routes = {name: ROUTES[name](part, 1) for name, part in zip(ROUTES, layers, strict=True)}
        return (
            reduce(self.attention)
            | routes
            | {
                "float8_saturated": torch.stack(self.saturated, 1).amax(1) if self.saturated else none,
                "float8_flushed": torch.stack(self.flushed, 1).amax(1) if self.flushed else none,
                "activation_mean": mean,
                "activation_std": (norm**2 - mean**2).clamp(min=0).sqrt(),
                "activation_max": torch.maximum(high, -low),
                # A unit is dead on a batch when it is over 0 for no token.
                "dead_share": (torch.stack(self.fired, 1) <= 0).float().mean(2),
            }
        )
