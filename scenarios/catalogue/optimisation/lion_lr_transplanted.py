"""Lion at AdamW's learning rate.

Failure: The optimizer is exchanged for Lion and the learning rate is left as it was. The loss falls for some tens of
    steps, while all weights grow at a constant speed; then it stops, turns up in mid-run and ends far above what a rate
    of a tenth reaches. No spike and no large gradient announces it.
Mechanism: Lion moves every weight by the sign of its momentum times the learning rate, whatever the gradient's size.
    AdamW's steps are smaller than its rate wherever gradients disagree from step to step, by a factor of 3 to 10, so
    the same number is a far larger step. What a weight moves does not shrink as the gradient does: only the schedule,
    or decay, ends the growth.
Injection: The learning rate times `factor`, from step 0; 10 is the rate of an AdamW run. Twin and faulty run have no
    weight decay.
Cure: Lion's own rate again, six steps in. Ten steps in is too late for one run in eight at a factor of 10.
Realism: Lion's authors advise a rate 3 to 10 times smaller than AdamW's and a decay as much larger. Here the decay is 0
    on both sides, so that one thing differs.
References: Chen et al. 2023, "Symbolic discovery of optimization algorithms"; mosaicml/llm-foundry#317;
    lucidrains/lion-pytorch#13.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Factor(Knobs):
    """How many times the twin's learning rate."""

    factor: float = 7.5


@register
class LionLrTransplanted(Scenario):
    """Every weight moves by a learning rate that was AdamW's."""

    id = "lion_lr_transplanted"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.LION,)
    telling = "layer_weight_norm"
    onset = None
    plans = 3
    severities = {
        Severity.SUBTLE: Factor(factor=5.0),
        Severity.CLEAR: Factor(factor=7.5),
        Severity.SEVERE: Factor(factor=10.0),
    }
    cure_after = 6

    def base(self, setup: Setup) -> Setup:
        return bases.echo_lion(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers, usual = (t["layer_weight_norm"][:, 1:-1] for t in (run, healthy))
        moved = run["layer_update_ratio"][:, 1:-1] * layers / run["lr"][:, None]
        level = shapes.smooth(run["loss"], 20)
        lowest = np.minimum.accumulate(level[20:])
        return {
            "each step moves every weight by the learning rate: a layer's update over it is constant to 1 %": (
                np.ptp(moved[10:], 0) < 0.01 * np.median(moved[10:], 0)
            ).all(),
            "the weights of each layer end ten times as large as they began": (layers[-1] > 10 * layers[0]).all(),
            "a healthy run's end at most five times as large": (usual[-1] < 5 * usual[0]).all(),
            "the level of the loss rises in mid-run, by a twentieth of a nat": (level[20:] - lowest).max() > 0.05,
            "the loss plateaus above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
        }
