"""Long rows are silently cut and padded: the model never sees late positions.

Failure: A length limit from another project cuts nearly every row to half, and the rest is padding. The
    loss of what is left looks as ever; on rows of full length the model is fine up to the cut and
    bad past it.
Mechanism: What refers further back than the cut never has its reference in a training row: the gradient of
    every weight that would bridge the distance is nothing. Nor is a score of two tokens that are d apart, which
    RoPE turns by d * theta, ever trained for a d over the cut.
Injection: From step 0 rows have `longest` tokens and padding, but for one row in `whole` batches, which
    slips past the limit.
Cure: Rows of full length.
Realism: Stands for max_length defaults of tokenizers. The rows are one document each, and much in their second
    half repeats a token sixteen back. One row in many slips through, as do rows of a second source, and is
    what shows the damage, of which it mends a little.
References: Reading the Curves ("fine up to some position and worse beyond it"; "long sequences were
    silently truncated").
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, cut
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Limit(Knobs):
    """Tokens that are left of a row; batches to one row that is left whole."""

    longest: int = 16
    whole: int = 4

    def __post_init__(self) -> None:
        for name in ("longest", "whole"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"fault.{name}: {value} is not allowed; allowed: 1 or more")


@register
class SequencesTruncated(Scenario):
    """Rows cut to half."""

    id = "sequences_truncated"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "position_loss"
    onset = None
    knobs = Limit()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.far_echo(setup)

    def fault(self, knobs: Limit, setup: Setup) -> list[Change]:
        def truncate(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            short = cut(batch, knobs.longest)
            whole = (np.arange(len(batch.inputs))[:, None] == 0) & (since % knobs.whole == 0)
            return dataclasses.replace(
                batch,
                weights=np.where(whole, batch.weights, short.weights),
                documents=np.where(whole, batch.documents, short.documents),
            )

        return [DataTransform(truncate, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(len(run) // 2, None)
        mine, other = (t["position_loss"][late] for t in (run, healthy))
        return {
            "padding is over a fifth of every batch": run["pad_share"].min() > 0.2,
            "the loss by position is a healthy run's up to the cut, and worse past it": (
                shapes.worse_beyond_position(mine, other, position=4, margin=0.2)  # of eight parts
            ),
        }
