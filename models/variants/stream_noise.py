"""Noise in the residual stream after each layer."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainwreck.kernels.random import generator, sent


@dataclass(frozen=True)
class StreamNoise:
    """Normal noise of standard deviation std_N, drawn from the seeds and the step of the runs."""

    seeds: list[int]
    step: int
    std_N: Tensor

    def draw(self, site: str, *shape: int) -> Tensor:
        """The noise of one site, [N, *shape]."""
        parts = [generator(seed, f"noise/{site}", self.step).standard_normal(shape) for seed in self.seeds]
        normal = sent(np.stack(parts), self.std_N.device).to(self.std_N.dtype)
        return normal * self.std_N.view(-1, *[1] * len(shape))

    def __call__(self, x_NMD: Tensor, site: str) -> Tensor:
        """The stream with its noise."""
        return x_NMD + self.draw(site, *x_NMD.shape[1:]).to(x_NMD.dtype)
