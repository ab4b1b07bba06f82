"""The dynamic loss scale backs off now and then: a skipped step with an infinite gradient norm.

Failure: None. The scaler doubles its scale until a float16 gradient overflows, skips that one step,
    halves the scale and goes on. In the log stand an infinite gradient norm, gradients that are not
    finite and an update that was not made. Nothing is lost but that update.
Mechanism: s <- 2 s after n finite steps, s <- s / 2 and no update where any s * g > 65504. At the edge
    one step in about n is skipped, by design.
Injection: From step 0 matrix products are in float16 under a dynamic scale that starts at 65536 and
    tries to grow every `interval` steps (PyTorch: 2000).
Realism: Every float16 run. What would be a failure: skips in a row, and a scale that only falls.
References: Micikevicius et al. 2018, "Mixed precision training"; Debugging Training Instability
    (dynamic loss scaling).
"""

from dataclasses import dataclass

from trainwreck.models.config import Format
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Growth(Knobs):
    """Finite steps after which the scale doubles."""

    interval: int = 40


@register
class BenignLossScaleBackoff(Scenario):
    """float16 with a dynamic scale that finds its edge."""

    id = "benign_loss_scale_backoff"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("loss_scale_collapse", "loss_scale_stuck_high")
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY, citations.DIVERGENT_LOSS)
    telling = "loss_scale"
    onset = None
    knobs = Growth()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Growth, setup: Setup) -> list[Change]:
        return [
            Setting("precision.format", Format.FP16),
            Setting("precision.loss_scale", 2.0**16),
            Setting("precision.dynamic", True),
            Setting("precision.growth_interval", knobs.interval),
        ]
