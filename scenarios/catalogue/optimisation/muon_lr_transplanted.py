"""Muon at a learning rate that was tuned for another scale of its updates.

Failure: A rate is copied from a recipe whose Muon does not scale updates by the shape of the matrix. Every step is too
    large by the same factor. Weights and attention logits climb from the first steps on, with no spike, and attention
    becomes a choice of one; the loss falls first, then stays above what the right rate reaches.
Mechanism: The momentum of each matrix is made orthogonal, so that its singular values are near 1 whatever the gradient
    is. A step therefore moves every direction by the learning rate, and clipping changes nothing. Without decay the
    spectral norm of a matrix can grow by that much in each step; scores multiply two such matrices.
Injection: The learning rate times `factor`, from step 0. Twin and faulty run have no weight decay.
Also seen: The gradient norm is not above the twin's: it is not gradients that are too large.
Cure: Muon's own rate again, twenty steps in.
Realism: Two conventions are in use. Updates of spectral norm 1 take rates of about 0.02; updates scaled to the root
    mean square of AdamW's, as here, take AdamW's rates. At the width of large models they differ by a factor of 10 and
    more. Large runs bound the scores as well (qk-norm, or the clip of query and key weights of Kimi K2).
References: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; Liu et al. 2025, "Muon is
    scalable for LLM training"; Kimi Team 2025, "Kimi K2: open agentic intelligence" (logits under Muon).
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

    factor: float = 11.0


@register
class MuonLrTransplanted(Scenario):
    """Muon's steps are too large by a constant factor."""

    id = "muon_lr_transplanted"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.MUON, citations.KIMI_K2)
    telling = "attention_logit_max"
    onset = None
    plans = 3
    severities = {
        Severity.SUBTLE: Factor(factor=8.0),
        Severity.CLEAR: Factor(factor=11.0),
        Severity.SEVERE: Factor(factor=14.0),
    }
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.echo_muon(setup)

    def fault(self, knobs: Factor, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        layers = run["layer_weight_norm"][:, 1:-1]
        moved = run["layer_update_ratio"][:, 1:-1] * layers / run["lr"][:, None]
        logits, usual = (t["attention_logit_max"].max(1) for t in (run, healthy))
        return {
            "the update of each layer is the learning rate times a constant, within a fifth": (
                np.ptp(moved[10:], 0) < 0.2 * np.median(moved[10:], 0)
            ).all(),
            "the weights of each layer are five times as large after sixty steps": (layers[60] > 5 * layers[0]).all(),
            "the largest attention logit ends over 1,000": np.median(logits[-50:]) > 1000,
            "in a healthy run it stays under 100": np.median(usual[-50:]) < 100,
            "the loss plateaus above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.03),
        }
