"""The loss scale is halved again and again, until the gradients underflow.

Failure: A backward pass that gives NaN on part of the batches, whatever the scale. The scaler takes each
    for an overflow and halves; it falls faster than it can grow, and in the end what is not skipped is zero.
Mechanism: LayerNorm written as (x - mean) / (std + eps). On a constant row its value is 0, but the root's
    slope 1 / (2 sqrt(0)) is infinite, and 0 * inf = NaN goes back. S -> S / 2 at each such batch, S -> 2 S
    only after 25 steps without: S falls to its floor, and S * g under 3e-8 is 0 in float16.
Injection: From the onset on, norms have eps outside the root. In all runs, healthy ones too, half of the batches
    have a few positions of padding, whose embedding is zero; with eps inside the root they are harmless.
Cure: eps inside the root, and a loss scale set back to its first value: from the floor, growth would take
    longer than the run.
Realism: Stands for `torch.std` in a hand-written norm, and for any overflow whose source is not the scale
    (OPT-175B reports that the scale crashed to 0 as the loss diverged). Simplified: one source, from one step on.
References: Debugging Training Instability (loss scale, dividing by zero in custom ops); Zhang et al. 2022
    (OPT-175B); Micikevicius et al. 2018.
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Variance
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_fp16, chain_padded
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit, Undo, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

LOWEST = 2.0**-10  # a scale under which little of a gradient is left


@register
class LossScaleCollapse(Scenario):
    """An overflow that no scale mends."""

    id = "loss_scale_collapse"
    family = Family.NUMERICS
    version = 2
    kinds = (FaultKind.VARIANT,)
    sources = (citations.INSTABILITY,)
    telling = "loss_scale"
    cure_after = 40

    def base(self, setup: Setup) -> Setup:
        return chain_padded(chain_fp16(setup), every=2)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.variance", Variance.EPS_OUTSIDE)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        scale, norm = run["loss_scale"], run["grad_norm"]
        finite = np.isfinite(norm)
        late, early = norm[-50:][finite[-50:]], norm[:onset][finite[:onset]]
        return {
            "the loss scale falls from 1 or more to 2^-10 or less": scale[-1] <= LOWEST and scale[onset] >= 1.0,
            "over a quarter of the steps are skipped": run["skipped"][onset:].mean() > 0.25,
            "the gradient norm of the others falls under a tenth of its level": (
                late.size > 0 and np.median(late) < 0.1 * np.median(early)
            ),
            "the loss of every step is finite": run.finite(),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def rescale(state: State, earlier: State) -> State:
            import torch

            return {**state, "loss_scale": torch.full_like(state["loss_scale"], setup.precision.loss_scale)}

        return [Undo(), StateEdit(rescale)]
