"""Noise enters the residual stream after every layer.

Failure: Each layer's output is disturbed at random, in training and in evaluation. The model can't
    learn the noise; it learns to speak over it.
Mechanism: x_l + n with n ~ N(0, s^2): what a norm reads has a signal-to-noise ratio of std(x)^2 / s^2, so
    the gradient asks for a larger std(x), step after step. What the noise hides stays above the floor.
Injection: From the onset on, normal noise of standard deviation `std` is added to the stream after each
    layer; the stream's own is near 5 at the onset. A draw depends on seed and step alone.
Cure: No noise, a few steps after the onset.
Realism: Stands for broken hardware and low-precision buffers between stages. Its size is far over what
    rounding does; at a fifth of the stream's standard deviation the loss hardly shows it.
References: Debugging training (activations); Debugging Training Instability (hardware, precision);
    Dixit et al. 2021 (silent data corruption).
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Noise(Knobs):
    """Standard deviation of the noise."""

    std: float = 8.0

    def __post_init__(self) -> None:
        if not 0 < self.std < np.inf:
            raise ValueError(f"fault.std: {self.std} is not allowed; allowed: over 0, finite")


@register
class ResidualNoise(Scenario):
    """Noise in the residual stream."""

    id = "residual_noise"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.INSTABILITY)
    telling = "activation_std"
    severities = {
        Severity.SUBTLE: Noise(std=5.0),
        Severity.CLEAR: Noise(std=8.0),
        Severity.SEVERE: Noise(std=16.0),
    }
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Noise, setup: Setup) -> list[Change]:
        def disturb(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            return dataclasses.replace(tables, noise_N=torch.full((1,), knobs.std))

        return [TableEdit(disturb)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        std, last = run["activation_std"].mean(1), len(run) - 50
        return {
            "the stream's standard deviation jumps within one step": shapes.jumps_in_one_step(std, onset, ratio=1.3),
            "it goes on growing": std[-20:].mean() > 1.2 * std[onset : onset + 10].mean(),
            "and ends far over the twin's": std[-20:].mean() > 2 * healthy["activation_std"][-20:].mean(),
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2),
            "and ends above the twin's": (shapes.steps_above(run["loss"], healthy["loss"], last, margin=0.03, last=50)),
        }
