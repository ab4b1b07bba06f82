"""The learning rate is just too high: a divergence without a spike.

Failure: The loss falls, reaches a minimum early, and climbs from there, smoothly, over hundreds of steps. No
    step looks worse than the one before; no alarm on spikes ever sounds.
Mechanism: Queries and keys grow a little each step, and nothing holds them: the logits of attention,
    q k' / sqrt(d), grow as the square. As the softmax saturates, attention turns from a soft choice into
    a hard and wrong one, whose gradient is too weak to mend it.
Injection: The rate is `factor` times the twin's from step 0 on; neither run has decay or clipping.
Cure: The healthy rate before the warm-up is half through, well before the minimum.
Realism: "Slow divergence" as in published sweeps, where runs with attention logits over 1e4 are lost
    (Wortsman et al. 2023). The exported program has steps=500, not 350, where the rise can come down to 0.24 nats on
    some processors.
References: Recognizing the symptoms; Reading the Curves (divergence); Wortsman et al. 2023; Zhai et al. 2023.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Factor(Knobs):
    """The rate over the healthy one."""

    factor: float = 8.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0")


@register
class SlowDivergence(Scenario):
    """A smooth climb after a minimum."""

    id = "slow_divergence"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.SYMPTOMS, citations.READING_CURVES)
    telling = "attention_logit_max"
    onset = None
    knobs = Factor()
    cure_after = 15
    program = ("steps=500",)

    def base(self, setup: Setup) -> Setup:
        return bases.chain_constant_lr_no_decay_no_clip(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, (logits, usual) = run["loss"], (t["attention_logit_max"].max() for t in (run, healthy))
        level = shapes.smooth(loss, 20)
        spikes = loss[60:] > 1.4 * level[59:-1]
        return {
            "the largest attention logit is over 50 times a healthy run's": logits > 50 * usual,
            "from step 60 on no loss is over 1.4 times the mean of the twenty before": not spikes.any(),
            "the loss ends 0.3 nats over its minimum": shapes.diverges(level, rise=0.3),
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", 1 / knobs.factor)]
