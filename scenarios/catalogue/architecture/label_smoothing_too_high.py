"""Label smoothing that drowns the labels.

Failure: The share of the target that label smoothing spreads over all tokens is most of it. The
    training loss settles early at a high constant, and the model is as uncertain as its targets.
Mechanism: The target is y = (1 - s) onehot + s / V. The best prediction is (1 - s) p + s / V, and the
    loss under it is its entropy: with s near 1 that is ln V, whatever the data. On the true labels
    that prediction costs at most ln(V / s) for tokens it can't name.
Injection: From step 0 the training loss is smoothed by `share`; validation is not, as usual. The
    logged training loss is the one that is trained on.
Cure: No smoothing, from the sixtieth step on.
Realism: A share of 0.1 is common and mild; larger ones come from sweeps and from a share that was
    meant as the part to keep.
References: Debugging Training Instability (silent no-learning: "label smoothing too large");
    Szegedy et al. 2016, "Rethinking the Inception architecture".
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
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Smoothing(Knobs):
    """Share of the target that is spread over all tokens."""

    share: float = 0.6


@register
class LabelSmoothingTooHigh(Scenario):
    """Smoothing dominates the loss."""

    id = "label_smoothing_too_high"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY,)
    telling = "loss"
    onset = None
    severities = {
        Severity.SUBTLE: Smoothing(share=0.4),
        Severity.CLEAR: Smoothing(share=0.6),
        Severity.SEVERE: Smoothing(share=0.9),
    }
    cure_after = 60

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Smoothing, setup: Setup) -> list[Change]:
        return [Setting("label_smoothing", knobs.share)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm, usual = np.median(run["grad_norm"][-100:]), np.median(healthy["grad_norm"][-100:])
        return {
            "the training loss plateaus far above the twin's over the second half of the run": (
                shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.5, share=0.5)
            ),
            "the gradient norm ends under the twin's": norm < 0.8 * usual,
            "the validation loss ends above the twin's": run.final_loss() > healthy.final_loss() + 0.1,
        }
