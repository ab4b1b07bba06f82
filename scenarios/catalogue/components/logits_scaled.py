"""The output logits are multiplied by a factor: the model is far too sure of itself.

Failure: Every prediction is as right or wrong as before, but its confidence is not. Where the model was
    wrong now and then, each mistake costs many nats.
Mechanism: softmax(c z) with c over 1 sharpens every distribution; -ln p of a token that is not on top
    grows like c times its distance from it. log Z grows by about the same factor, and so does the
    gradient, until the head's weights have shrunk.
Injection: From the onset on, logits are multiplied by `factor`, in training and in evaluation.
Also seen: Largest logit and log Z jump by about the factor.
Cure: The logits as they are, a few steps after the onset.
Realism: Stands for a temperature of inference left in a training path, and for a logit multiplier of
    one parametrization applied under another.
References: Debugging training ("softmax saturation pushing logits to infinity"); Debugging Training
    Instability (log/softmax misuse); Guo et al. 2017.
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
class Temperature(Knobs):
    """Factor on the logits, an inverse temperature."""

    factor: float = 4.0

    def __post_init__(self) -> None:
        if not 0 <= self.factor < np.inf:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: 0 or more, finite")


@register
class LogitsScaled(Scenario):
    """Over-confident by a factor."""

    id = "logits_scaled"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.DEBUGGING, citations.INSTABILITY)
    telling = "log_z"
    severities = {
        Severity.SUBTLE: Temperature(factor=2.0),
        Severity.CLEAR: Temperature(factor=4.0),
        Severity.SEVERE: Temperature(factor=8.0),
    }
    cure_after = 4

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Temperature, setup: Setup) -> list[Change]:
        def sharpen(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            return dataclasses.replace(tables, logit_gain_N=torch.full((1,), knobs.factor))

        return [TableEdit(sharpen)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the largest logit jumps within one step": shapes.jumps_in_one_step(run["output_max"], onset, ratio=1.6),
            "and log Z with it": shapes.jumps_in_one_step(run["log_z"], onset, ratio=1.3),
            "the loss jumps": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2),
            "and comes down again": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.3),
        }
