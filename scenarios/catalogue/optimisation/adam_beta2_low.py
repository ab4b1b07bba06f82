"""Adam's beta2 is far under 0.9: the second moment forgets faster than the first.

Failure: The size of a step is taken from the last one or two gradients alone. Steps of single weights become
    many times the learning rate whenever a gradient dies down; the loss jitters, climbs in bursts and
    ends above.
Mechanism: While a gradient vanishes, m shrinks by beta1 a step and sqrt(v) by sqrt(beta2). With
    beta1 > sqrt(beta2) the update grows, by beta1 / sqrt(beta2) a step: by 4 for beta2 = 0.05.
Injection: `beta2` is set from step 0 on, `beta1` stays 0.9.
Also seen: On most seeds the loss swings from step to step ten times as far as a healthy run's.
Cure: beta2 as it should be, from a few steps in on, before the weights have blown up.
Realism: "If it has drifted below 0.9 the second-moment estimate is averaged over too short a window to be
    stable." Simplified: far below; between 0.3 and 0.9 this small model grows weights that nothing uses and
    learns all the same. The exported program has optimizer.lr=0.02, not 0.01, where under some vector instructions
    the run ends less than 0.1 nats above its twin.
References: Reading the Curves (loss oscillates without converging); Kingma and Ba 2015; Reddi et al. 2018.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Beta2(Knobs):
    """Decay rate of the second moment."""

    beta2: float = 0.05


@register
class AdamBeta2Low(Scenario):
    """Second moment over too short a window."""

    id = "adam_beta2_low"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "layer_update_ratio"
    onset = None
    knobs = Beta2()
    cure_after = 10
    program = ("optimizer.lr=0.02",)

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Beta2, setup: Setup) -> list[Change]:
        return [Setting("optimizer.beta2", knobs.beta2)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (np.log(t["layer_update_ratio"][:, 0]) for t in (run, healthy))
        jitter = shapes.oscillates(mine, other, factor=3.0)
        return {
            "the embedding's update ratio swings 3 times as far from step to step as a healthy run's": jitter,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.1),
        }
