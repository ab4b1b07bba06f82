"""Dropout of attention probabilities, described by its draws instead of by a mask of them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trainwreck.kernels.random import philox_4x32

STEP_LIMIT = 2**31


@dataclass(frozen=True, eq=False)
class Dropout:
    """Drops the probability of key s for query t, head h of row b where a draw is under the rate.

    The draw is word s % 4 of Philox-4x32-10 at the counter (s // 4, t, b * H + h, step) under the
    run's key, so that a kernel can make it where it is needed, in whatever order.
    keys_N: int64, from `random.run_keys`. rate_N: float. The resolution of the rate is 2**-32.
    """

    keys_N: Tensor
    step: int
    rate_N: Tensor

    @cached_property
    def thresholds(self) -> Tensor:
        """Draws under this are dropped, int64, 0 to 2**32 - 1."""
        return (self.rate_N.double() * 2**32).to(torch.int64)

    @cached_property
    def factors(self) -> Tensor:
        """What is kept is multiplied by it: 1 / (1 - rate)."""
        return 1.0 / (1.0 - self.rate_N)

    def mask(self, b: int, h: int, t: int) -> Tensor:
        """The scaled keep mask, [N, B, H, T, S], in the dtype and on the device of `rate_N`."""
        device = self.keys_N.device
        position = torch.arange(t, device=device)
        group = torch.arange((t + 3) // 4, device=device)
        head = torch.arange(b * h, device=device)
        counter = (group, position[:, None], head[:, None, None], torch.full((1,), self.step, device=device))
        words = philox_4x32(counter, self.keys_N.view(-1, 1, 1, 1))
        draws = torch.stack(words, -1).flatten(-2)[..., :t]
        kept = draws >= self.thresholds.view(-1, 1, 1, 1)
        return kept.view(-1, b, h, t, t).to(self.rate_N.dtype) * self.factors.view(-1, 1, 1, 1, 1)

    def check(self, n: int, device: torch.device) -> None:
        """ValueError for what doesn't fit N runs."""
        if not 0 <= self.step < STEP_LIMIT:
            raise ValueError(f"dropout.step: {self.step} is not allowed; allowed: 0 to {STEP_LIMIT - 1}")
        for name, tensor in (("keys_N", self.keys_N), ("rate_N", self.rate_N)):
            if tensor.shape != (n,):
                raise ValueError(f"dropout.{name}: shape {tuple(tensor.shape)} is not allowed; allowed: [{n}]")
            if tensor.device != device:
                raise ValueError(f"dropout.{name}: device {tensor.device} is not allowed; allowed: {device}")
        if self.keys_N.dtype != torch.int64:
            raise ValueError(f"dropout.keys_N: dtype {self.keys_N.dtype} is not allowed; allowed: torch.int64")
