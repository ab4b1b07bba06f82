"""The clipping threshold is so high that it never engages.

Failure: Clipping is on, and does nothing: its threshold is over any gradient that ever comes. Heavy-tailed
    batches go through whole, and after the first of them the loss does not come back.
Mechanism: min(1, c / |g|) = 1 at every step when c is over the largest |g|. Each step is what it would be without
    clipping: from one onset on the run is bitwise that of `clipping_off`, and its signature is the same.
Injection: From the onset on the threshold is `clip`. In all runs, healthy ones too, one batch in ten repeats one
    token; under a threshold of 1 that is harmless.
Cure: A threshold of 1 in its place, and a checkpoint from before the onset. Without the checkpoint one run in eight
    does not come back to its twin in time.
Realism: A threshold chosen for a summed loss, or for the norm of one layer. A scenario beside `clipping_off`, since the
    mistake is another: clipping is on, and its number is wrong. Only the configuration tells the two apart.
References: Reading the Curves (loss spikes; clip); Pascanu et al. 2013.
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Clip(Knobs):
    """Largest gradient norm let through."""

    clip: float = 1e4


@register
class ClipTooLoose(Scenario):
    """A threshold over every gradient under heavy-tailed batches."""

    id = "clip_too_loose"
    family = Family.OPTIMISATION
    version = 2
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = MidRun(0.3, 0.5)
    knobs = Clip()
    cure_after = 12

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd_heavy_tailed(setup)

    def fault(self, knobs: Clip, setup: Setup) -> list[Change]:
        return [Setting("optimizer.clip", knobs.clip)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, norm, before = run["loss"], run["grad_norm"], slice(onset - 20, onset)
        return {
            "the gradient norm jumps to over 8 times its level": norm[onset:].max() > 8 * np.median(norm[before]),
            # Most batches are good ones, so that the median is theirs.
            "between the bad batches the loss ends above its level before": (
                np.median(loss[-50:]) > np.median(loss[before]) + 0.3
            ),
            "the clip coefficient is 1 throughout": run["clip_coef"][onset:].min() == 1,
        }

    def cure(self, knobs: Clip, setup: Setup) -> list[Change]:
        restore = StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)
        return [Undo(), restore]
