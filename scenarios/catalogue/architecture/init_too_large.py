"""Every weight starts too large.

Failure: All weights are drawn many times too large. Activations are huge from the first step, and the
    model learns as if the learning rate were that much smaller.
Mechanism: At k times the right scale a branch adds k^2 times as much to the stream (two matrices
    follow each other), which the next norm divides out again. Scores grow by k^2 as well, and no norm
    stands between them and softmax: attention starts as a choice of one. A step of lr turns a weight
    of size k by lr / k.
Injection: The standard deviations of embedding, matrices and head times `factor`.
Cure: The right scale, with a warm-up half as long again as the twin's.
Realism: Stands for the default unit-variance embedding or a forgotten fan-in. Without norms
    the same start can overflow; with them it only costs time, which is why it goes unnoticed.
References: Debugging training (gradient norms: "indicates initialisation or architecture problems");
    Glorot and Bengio 2010.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled, Setting, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

SPREADS = ("embedding_std", "matrix_std", "head_std")


@dataclass(kw_only=True)
class Factor(Knobs):
    """How many times too large the initial weights are."""

    factor: float = 10.0


@register
class InitTooLarge(Scenario):
    """All weights too large at the start."""

    id = "init_too_large"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.DEBUGGING,)
    telling = "activation_std"
    onset = None
    severities = {
        Severity.SUBTLE: Factor(factor=6.0),
        Severity.CLEAR: Factor(factor=10.0),
        Severity.SEVERE: Factor(factor=20.0),
    }

    def base(self, setup: Setup) -> Setup:
        return bases.chain_third_lr(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled(f"model.init.{name}", knobs.factor) for name in SPREADS]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(10, len(run), len(healthy))
        large = run["activation_std"][:n] > 5 * healthy["activation_std"][:n]
        return {
            "in the first ten steps the activations of every layer are over five times the twin's": large.all(),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }

    def cure(self, knobs: Factor, setup: Setup) -> list[Change]:
        longer = setup.schedule.warmup_steps * 3 // 2
        return [Undo(), Setting("schedule.warmup_steps", longer)]
