"""Packed documents see each other.

Failure: Several documents share a row and the document mask is missing, so each reads its neighbours
    as its own past. What holds for one document is taken for true in the next.
Mechanism: A name's attribute is drawn separately in each document. With the mask an attribute that is seen
    is the right one; without it the last one seen is right only if no document began since, and the
    model, which can't see where documents begin, has to bet: the loss of a lookup goes from that of
    its noise to the entropy of the bet.
Injection: From step 0 keys of other documents are not masked; the causal mask is right.
Cure: The document mask after twenty steps.
Realism: Stands for packing without a block-diagonal mask, or a kernel that ignores it. The language is
    made of what breaks: short documents, half of whose free tokens are names. In text of long documents
    the same fault costs a few hundredths of a nat in all.
References: Reading the Curves ("check the data pipeline's sequence packing and document masking");
    Krell et al. 2021, "Efficient sequence packing without cross-contamination".
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@register
class DocumentMaskMissing(Scenario):
    """No mask between the documents of a row."""

    id = "document_mask_missing"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "age_loss"
    onset = None
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.recall(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [TableEdit(unmask)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-75, None)
        by_age, usual = (np.nanmean(t["age_loss"][late, 1:], 0) for t in (run, healthy))
        worse = by_age - usual
        return {
            "some attention lies on other documents": run["attention_mass_other_document"][late].max(1).mean() > 0.05,
            "from a document's third token on the loss is above the twin's at every age": worse.min() > 0,
            "by over 0.04 nats on average": worse.mean() > 0.04,
            "and by most at the oldest ages": worse[-1] == worse.max(),
            "the loss plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.0),
        }


def unmask(tables: "Tables", setup: Setup) -> "Tables":
    """Keys of other documents may be seen."""
    import torch

    return dataclasses.replace(tables, documents_N=torch.zeros(1, dtype=torch.bool))
