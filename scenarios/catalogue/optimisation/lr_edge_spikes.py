"""The learning rate is just above the edge: the loss spikes, recovers, and spikes again.

Failure: For some hundred steps the loss is lower than the twin's. Then it leaps within a few steps to three to six
    times its level, is back after twenty to fifty, and leaps again about ninety steps later, to the end of the run.
Mechanism: As gradients shrink, Adam's second moment forgets the large ones at the rate of beta2, and the steps grow
    along directions of curvature h. Where lr * h / sqrt(v) passes the bound of stability (38 for beta1 = 0.9,
    Cohen et al. 2022), the error grows from step to step. The gradients of the spike fill the second moment, which ends
    it; the next one comes when it has been forgotten.
Injection: From step 0 the rate is `factor` times the twin's.
Cure: The twin's rate, after half of the run.
Realism: PaLM's largest model spiked some twenty times, though gradients were clipped (Chowdhery et al. 2022). Here 32
    rows are every batch, so that no noise keeps the second moment up, and labels are smoothed, so that the loss of
    memorised rows is not zero. Both runs overfit; three runs in four end as well as the twin, between two spikes.
    The exported program has a healthy rate of 0.006 and 550 steps: at 0.005 and 400 there are two to four spikes, and
    rounding alone may leave one.
References: Debugging Training Instability (loss spikes); Reading the Curves (spikes); Bai et al. 2025, "Adaptive
    preconditioners trigger loss spikes in Adam"; Cohen et al. 2022; Chowdhery et al. 2022.
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

    factor: float = 24.0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: over 0")


@register
class LREdgeSpikes(Scenario):
    """Spikes that recover and come again."""

    id = "lr_edge_spikes"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "loss"
    onset = None
    plans = 3
    knobs = Factor()
    cure_after = 200
    tolerance = 0.35  # healthy runs of this base, which overfit, end 0.34 nats apart
    program = ("optimizer.lr=0.006", "steps=550")

    def base(self, setup: Setup) -> Setup:
        return bases.chain_full_batch(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, usual = run["loss"], healthy["loss"]
        return {
            "twice or more often the loss leaps to over twice its level and is back within fifty steps": (
                shapes.spikes_repeatedly(loss, ratio=2.0, within=50, times=2)
            ),
            "between them it comes down to within a tenth of a healthy run's least": loss.min() < 1.1 * usual.min(),
        }
