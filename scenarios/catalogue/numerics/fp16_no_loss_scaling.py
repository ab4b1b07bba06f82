"""Gradients underflow in float16 without a loss scale.

Failure: Mixed-precision training starts without a scaler. Most gradients of the layers are under the smallest
    number of float16 and arrive as zero; the model learns little more than its head can.
Mechanism: float16 ends at 6e-8. A mean over 512 tokens, and a norm that divides by a residual stream of size 1e4,
    leave about 1e-8 to each output of a layer. A scale S of 2^16 lifts that into range; S = 1 does not.
Injection: From step 0 the loss scale is static, and 1.
Cure: Dynamic scaling, at a resume with the scale that the healthy run started from.
Realism: Stands for a mixed-precision loop without its scaler. Simplified: the whole stream is large from the
    initialisation on. Large models have a few such features (Sun et al. 2024), and far more tokens a batch.
References: Debugging Divergent Loss During Training ("without proper loss scaling"); Debugging
    training (mixed precision needs loss scaling); Micikevicius et al. 2018; Sun et al. 2024 (massive activations).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import echo_fp16_large_stream
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class Fp16NoLossScaling(Scenario):
    """Gradients too small for their format."""

    id = "fp16_no_loss_scaling"
    family = Family.NUMERICS
    version = 2
    kinds = (FaultKind.SETTING,)
    sources = (citations.DIVERGENT_LOSS, citations.DEBUGGING)
    telling = "zero_grads"
    onset = None
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return echo_fp16_large_stream(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("precision.dynamic", False), Setting("precision.loss_scale", 1.0)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers, usual = (trace["layer_grad_norm"][-60:, 1:] for trace in (run, healthy))  # without the embedding
        zero, others = (np.median(trace["zero_grads"][-60:]) for trace in (run, healthy))
        return {
            "the first layer's share of the gradient is a third": shapes.vanishes_in_early_layers(layers, usual, 3.0),
            "over three times as many gradients are zero": zero > 3 * others,
            "the loss ends above a healthy run's": np.mean(run["loss"][-60:]) - np.mean(healthy["loss"][-60:]) > 0.05,
            "no step is skipped": not run["skipped"][onset:].any(),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def scaled(state: State, earlier: State) -> State:
            import torch

            return {**state, "loss_scale": torch.full_like(state["loss_scale"], setup.precision.loss_scale)}

        return [Undo(), StateEdit(scaled)]
