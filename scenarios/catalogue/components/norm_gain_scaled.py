"""The gain of one norm is nearly zero: the residual stream behind it is a whisper.

Failure: With the norm after the sum, what it puts out is the stream itself. A gain that is a fraction
    of what it was leaves the next layer a whisper to work with.
Mechanism: y = g * (x - mean) / std + b. Under Post-LN the next layer's scores are of second order in
    y, so a gain of a tenth makes attention nearly uniform, and the gradient to all that lies before is
    scaled by g as well.
Injection: From the onset on, the gain of the norm after the first layer's MLP computes `factor` times
    as large. The base has its norms after the sums.
Also seen: From a fraction the layers behind recover, from nothing they don't.
Cure: The trained gain computes, a few steps after the onset.
Realism: Stands for gains stored as g - 1 and loaded as g, and for weight decay on gains.
References: Debugging training (activations: mean and standard deviation); Reading the Curves
    (normalization); Xiong et al. 2020.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Fraction(Knobs):
    """What is left of the gain."""

    factor: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.factor < np.inf:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: 0 or more, finite")


@register
class NormGainScaled(Scenario):
    """Gain of one norm a fraction of what it was."""

    id = "norm_gain_scaled"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.READING_CURVES)
    telling = "activation_std"
    severities = {
        Severity.SUBTLE: Fraction(factor=0.2),
        Severity.CLEAR: Fraction(factor=0.1),
        Severity.SEVERE: Fraction(factor=0.0),
    }
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo_post_norm(setup)

    def fault(self, knobs: Fraction, setup: Setup) -> list[Change]:
        def fade(parametrization: Parametrization, plan: Layout) -> Parametrization:
            return parametrization.scaled(plan.places("layer_0.mlp_norm.gain"), knobs.factor, plan.size)

        return [ParametrizationEdit(fade)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        std = run["activation_std"]
        return {
            "the stream's standard deviation after the first layer drops within one step": (
                shapes.drops_in_one_step(std[:, 0], onset, ratio=0.4)
            ),
            "after the last layer it does not": not shapes.drops_in_one_step(std[:, -1], onset, ratio=0.7),
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.3),
        }
