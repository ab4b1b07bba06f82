"""Queries and keys are rotated from different starting positions.

Failure: One side counts positions from 0, the other from somewhere else: an off-by-one in a position
    counter, or a cache that was not reset. Every distance the model has learnt is off by a constant.
Mechanism: (R_(t+n) q)' (R_s k) = q' R_(s-t-n) k: heads that look back k positions now look back
    k - n, short of the token they want. The query weights can learn to turn back, pair by pair, and the
    faster a pair turns, the more there is to relearn.
Injection: From the onset on, the queries' table starts at position `offset`.
Also seen: Small offsets are relearnt before the end, larger ones leave a plateau above the twin.
Cure: The same offset on both sides, a few steps after the onset.
Realism: Stands for position ids that drift between prefill and decode paths or between two code
    paths of one model. From step 0 a constant offset is absorbed and harmless (0.004 nats).
References: Reading the Curves ("RoPE rotated with the wrong frequencies or offset"); Su et al. 2021.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Offset(Knobs):
    """How many positions the queries are ahead of the keys."""

    offset: int = 3


@register
class RopeWrongOffset(Scenario):
    """Queries rotated as if they stood further on."""

    id = "rope_wrong_offset"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES,)
    telling = "age_loss"
    severities = {
        Severity.SUBTLE: Offset(offset=2),
        Severity.CLEAR: Offset(offset=4),
        Severity.SEVERE: Offset(offset=16),
    }
    cure_after = 15

    def fault(self, knobs: Offset, setup: Setup) -> list[Change]:
        requirements.rotary(setup)

        def shift(tables: "Tables", setup: Setup) -> "Tables":
            from trainwreck.models.rotary import rotary_table

            model = setup.model
            table = rotary_table(model.context, model.head_width, model.rope_base, offset=knobs.offset)[None]
            return dataclasses.replace(tables, rotary_q_NTK=table)

        return [TableEdit(shift)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        gap = run["loss"][onset:n] - healthy["loss"][onset:n]
        return {
            "the loss jumps at the onset": gap[:3].mean() > 0.5,
            "fifteen to 25 steps later it is still above the twin's": len(gap) > 15 and gap[15:25].mean() > 0.15,
            "from there to a hundred steps after the onset it is nearer to it": (
                len(gap) > 25 and gap[25:100].mean() < gap[:10].mean()
            ),
        }
