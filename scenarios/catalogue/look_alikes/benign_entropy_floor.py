"""The loss is flat because there is nothing left to learn.

Failure: None. The source is a simple chain; the model reaches its entropy within a quarter of the
    run, and the curve is flat from there on.
Mechanism: E[-ln q(x)] = H(p) + KL(p || q) >= H(p): a flat loss at H is the best there is. The same
    curve above H is a plateau; only the known entropy, or a longer view, tells them apart.
Injection: The base itself: the chain dialect at its usual rate. Nothing is changed in mid-run, so the
    run is its own twin and is held against the exact entropy instead.
Realism: Fine-tuning on narrow data, and the last stretch of every run.
References: Reading the Curves (loss plateau early); Debugging training (loss plateaus).
"""

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Dialect, Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@register
class BenignEntropyFloor(Scenario):
    """Flat at the entropy of the source."""

    id = "benign_entropy_floor"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("lr_too_low", "capacity_too_small")
    own_twin = True
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "loss"
    onset = None
    tolerance = 0.12

    def base(self, setup: Setup) -> Setup:
        return replaced(setup, data__dialect=Dialect.CHAIN)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return []
