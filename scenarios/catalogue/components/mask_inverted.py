"""The mask is upside down: what was allowed is forbidden, and the other way round.

Failure: A boolean mask that says what to hide is taken for one that says what to keep. Each token sees
    the future alone, the one to be predicted included, and neither itself nor its past.
Mechanism: Position t may attend to s > t, where s <= t is right. At first nothing that the heads have
    learnt fits, and the loss jumps; then they learn to copy x_(t+1), and it falls under the entropy of
    the source, since H(x_(t+1) | x_(t+1)) = 0.
Injection: From the onset on, the causal mask is inverted in every layer. A query without an
    allowed key attends uniformly to what one mask alone hides, this one or that of documents.
Cure: The right mask, a few steps after the onset.
Realism: Stands for libraries that disagree on what True means in a mask. Document masks stay right.
References: Reading the Curves ("attention mask may be zeroed or malformed"); Debugging Training Instability
    (attention masking bugs).
"""

import dataclasses
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.schema import Harm
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
class MaskInverted(Scenario):
    """Allowed and forbidden exchanged."""

    id = "mask_inverted"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.INSTABILITY)
    telling = "attention_mass_future"
    harm = Harm.BELOW
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def invert(tables: "Tables", setup: Setup) -> "Tables":
            return dataclasses.replace(tables, allowed_NTS=~tables.allowed_NTS)

        return [TableEdit(invert)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "from the onset on over four fifths of the attention of every layer lies on the future": (
                run["attention_mass_future"][onset:].min() > 0.8
            ),
            "the loss jumps at the onset": shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2),
            "and ends far under the twin's": shapes.falls_under(run["loss"], healthy["loss"], margin=0.5),
        }
