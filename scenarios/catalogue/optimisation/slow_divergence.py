"""The learning rate is just over the edge: a divergence without a spike.

Failure: The loss falls, reaches a minimum early, and climbs from there, smoothly, over hundreds of steps. No
    step looks worse than the one before; no alarm on spikes ever sounds.
Mechanism: Queries and keys grow a little each step, and nothing holds them: the logits of attention,
    q k' / sqrt(d), grow as the square. As the softmax saturates, attention turns from a soft choice into
    a hard and wrong one, whose gradient is too weak to mend it.
Injection: The rate is `factor` times the twin's from step 0 on; neither run has decay or clipping.
Signature: The attention logits climb to hundreds of times a healthy run's; the level of the loss ends well over its
    minimum, and no single step is half as high again as the steps before it.
Cure: The healthy rate once the warm-up is half through, before the minimum. Qk-norm cures it too: the same
    rate then ends without a climb.
Realism: "Slow divergence" as in published sweeps, where runs with attention logits over 1e4 are lost
    (Wortsman et al. 2023).
References: Recognizing the symptoms; Reading the Curves (divergence); Wortsman et al. 2023; Zhai et al. 2023.
"""

from dataclasses import dataclass

from trainwreck.evaluation import shapes
from trainwreck.evaluation.trace import Trace
from trainwreck.scenarios import bases, documents
from trainwreck.scenarios.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.registry import register
from trainwreck.scenarios.settings import Setup
from trainwreck.scenarios.spec import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Factor(Knobs):
    """The rate over the healthy one."""

    factor: float = 7.5


@register
class SlowDivergence(Scenario):
    """A smooth climb after a minimum."""

    id = "slow_divergence"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (documents.SYMPTOMS, documents.READING_CURVES)
    telling = "attention_logit_max"
    onset = None
    knobs = Factor()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_bare(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        logits = run["attention_logit_max"].max() > 50 * healthy["attention_logit_max"].max()
        climbs = shapes.diverges(shapes.smooth(run["loss"], 20), rise=0.3)
        return bool(logits) and climbs and not shapes.spikes(run["loss"][60:], ratio=1.5, times=1)

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", 1 / knobs.factor)]
