"""Positions run on across packed documents.

Failure: Documents share a row, and the positions that the loader hands out count from the row's start. The second
    document of a row, and each after it, begins at places where the model has never seen a document, or anything.
Mechanism: A learned position is a vector of its own, x_t = E[token] + P[place]. Documents that begin at 0 have
    taught P[0] to P[longest]; a document that begins at s asks for P[s] to P[s + n], of which those past the longest
    are still what they were drawn as.
Injection: From the onset on a token's place is counted from the start of the row and not of its document. The mask
    between documents stays right.
Cure: Places are counted from each document's start again.
Realism: Stands for position ids that a packing collator leaves out, so that the model counts by itself. Often
    the attention kernel reads documents off the same ids, and then documents see each other too
    (`document_mask_missing`). Simplified: learned positions. Under rotary ones and the right mask the same counter
    changes nothing but rounding, as scores depend on distances within a document alone.
References: huggingface/trl#3526 (packing without position ids that say where documents begin); Krell et al. 2021,
    "Efficient sequence packing without cross-contamination"; Vaswani et al. 2017 (learned positions).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Positions
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class PackedPositionsNotReset(Scenario):
    """Places counted from the start of the row."""

    id = "packed_positions_not_reset"
    family = Family.ATTENTION
    plans = 3
    kinds = (FaultKind.VARIANT,)
    sources = (citations.TRL_3526,)
    telling = "position_loss"
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.echo_learned_positions(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.positions", Positions.ROW)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        soon, late = slice(onset, onset + 20), slice(-75, None)
        at_once, at_last = (np.nanmean(run["position_loss"][s] - healthy["position_loss"][s], 0) for s in (soon, late))
        first, second = slice(None, len(at_once) // 4), slice(len(at_once) // 2, None)
        return {
            "in the second half of the rows the loss rises at the onset": at_once[second].mean() > 0.1,
            "in the first quarter, which is of first documents, it does not": abs(at_once[first].mean()) < 0.05,
            "the second half stays above the twin's by more than the first quarter does": (
                at_last[second].mean() > at_last[first].mean() + 0.03
            ),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.03),
        }
