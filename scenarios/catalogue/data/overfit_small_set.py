"""A handful of documents, read over and over: validation turns up while the training loss falls.

Failure: The model is trained on so few rows that it memorises them. The training loss goes to
    nothing; the validation loss reaches its minimum within some tens of steps and climbs from there on.
Mechanism: On a set of R rows the least loss is that of reciting them, 0 nats, and every bit of
    certainty about them that is not in the source costs -ln p on other rows: the validation loss grows
    with the logits' scale without bound.
Injection: From step 0 there are `rows` rows, in a new order each epoch.
Cure: More documents: the whole source from some steps after the start on. Early stopping keeps the
    minimum, but no more.
Realism: Fine-tuning on a small set; in pretraining it is rare.
References: Reading the Curves (validation diverges from training); Debugging training (classical
    overfitting).
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
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Rows(Knobs):
    """How many rows there are."""

    rows: int = 16

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"fault.rows: {self.rows} is not allowed; allowed: 1 or more")


@register
class OverfitSmallSet(Scenario):
    """Sixteen rows, many epochs."""

    id = "overfit_small_set"
    family = Family.DATA
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "validation_loss"
    onset = None
    knobs = Rows()
    cure_after = 50

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Rows, setup: Setup) -> list[Change]:
        return [Setting("data.pool", knobs.rows)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        turned = shapes.diverges(np.repeat(run.evaluations[1], 10), rise=0.3)
        return {
            "the validation loss ends 0.3 nats over its own minimum": turned,
            "the training loss ends under a healthy run's": shapes.falls_under(
                run["loss"], healthy["loss"], margin=0.3
            ),
        }
