"""Adam's second moment lags behind gradients that have come back: it underestimates them.

Failure: A gradient that had faded returns at many times its size. The second moment remembers the small ones,
    so that Adam's steps are many times too long, until it has caught up. The loss spikes within a few steps and
    much is lost.
Mechanism: v follows g^2 with weight 1 - beta2 a step, m follows g with 1 - beta1. n steps after g has grown k
    times, and has one sign, the update is (1 - beta1^n) / sqrt(1 / k^2 + 1 - beta2^n) of lr: for k = 100 up to
    6.5 for beta2 = 0.999 and 1.1 for 0.95. So early in a run, where bias correction makes v the mean of all
    steps so far, it is 2 to 3; a usual step, mostly noise, is far under 1.
Injection: From the onset on the gradient is `growth` times what it was. Adam would not care in the long run:
    scale drops out of m / sqrt(v).
Cure: Update clipping from the next step on: the step of each parameter is divided by max(1, RMS_t).
Realism: Wortsman et al. saw spikes 1 to 8 steps after v underestimates g^2, that is, RMS_t = sqrt(mean(g^2 /
    v)) over 2.3; the signature takes the same of the whole model. Stands for a part of the loss or of the data
    that comes back. Simplified: every gradient grows, by a plain factor, as when the weight of a loss changes.
    The learning rate is high and beta2 is 0.999.
References: Wortsman et al. 2023, "Stable and low-precision training for large-scale vision-language models"
    (StableAdamW); Shazeer and Stern 2018, "Adafactor"; Debugging Divergent Loss (moment estimates can
    misbehave).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Growth(Knobs):
    """How many times as large gradients become."""

    growth: float = 100.0


@register
class SecondMomentUnderestimates(Scenario):
    """Gradients return at a size that v has forgotten."""

    id = "second_moment_underestimates"
    family = Family.OPTIMISATION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "layer_update_ratio"
    knobs = Growth()
    cure_after = 1

    def base(self, setup: Setup) -> Setup:
        return bases.chain_lr_x10_beta2_0999_no_clip(setup)

    def fault(self, knobs: Growth, setup: Setup) -> list[Change]:
        def grow(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, gain_N=torch.full((1,), knobs.growth))

        return [UpdateEdit(grow)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, ratio = run["loss"], lag(run["grad_norm"], 0.999)[onset]
        spike, level = loss[onset + 1 : onset + 9].max(), np.median(loss[onset - 20 : onset])
        return {
            "at the onset the gradient norm is over 2.3 times the root of its second moment": ratio > 2.3,
            "the loss rises by half a nat within the next eight steps": spike > level + 0.5,
        }

    def cure(self, knobs: Growth, setup: Setup) -> list[Change]:
        return [Setting("optimizer.update_clip", 1.0)]


def lag(norm: np.ndarray, beta2: float) -> np.ndarray:
    """The gradient norm over the root of its own second moment, at each step."""
    second, ratios = 0.0, []
    for t, square in enumerate(np.square(norm.astype(np.float64))):
        second = beta2 * second + (1 - beta2) * square
        with np.errstate(invalid="ignore"):  # NaN where both are infinite
            ratios.append(np.sqrt(square * (1 - beta2 ** (t + 1)) / second))
    return np.array(ratios)
