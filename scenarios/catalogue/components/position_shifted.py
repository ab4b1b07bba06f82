"""The position counter skips ahead at every chunk's border.

Failure: Positions are handed out chunk by chunk, and each chunk starts further on than the last one
    ended. Within a chunk all distances are right; across a border they are too long.
Mechanism: Rotary scores depend on the distance alone, q' R_(p(s) - p(t)) k. With
    p(t) = t + jump * floor(t / every) a token k back that lies b borders back seems k + b * jump away,
    and a head that looks back k misses it.
Injection: From the onset on, queries and keys alike are rotated by the skipping counter.
Cure: The right counter, a few steps after the onset.
Realism: Stands for position ids of padded or chunked batches that count what is not there. An offset
    that is the same everywhere changes nothing under rotary embedding.
References: Reading the Curves ("RoPE rotated with the wrong frequencies or offset"); Debugging Training
    Instability (positions incorrectly applied); Su et al. 2021.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(kw_only=True)
class Skip(Knobs):
    """How many positions the counter skips, and after how many tokens each time."""

    every: int = 4
    jump: int = 4

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"fault.every: {self.every} is not allowed; allowed: 1 or more")
        if self.jump < 0:
            raise ValueError(f"fault.jump: {self.jump} is not allowed; allowed: 0 or more")


@register
class PositionShifted(Scenario):
    """Positions offset further and further along the row."""

    id = "position_shifted"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.READING_CURVES, citations.INSTABILITY)
    telling = "loss"
    knobs = Skip()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Skip, setup: Setup) -> list[Change]:
        def skip(tables: "Tables", setup: Setup) -> "Tables":
            import torch

            from trainwreck.models.rotary import rotary_table

            model = setup.model
            t = torch.arange(model.context)
            seeming = t + knobs.jump * (t // knobs.every)
            table = rotary_table(int(seeming[-1]) + 1, model.head_width, model.rope_base)[seeming][None]
            return dataclasses.replace(tables, rotary_q_NTK=table, rotary_k_NTK=table)

        return [TableEdit(skip)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        return {
            "the loss steps up at the onset": (
                shapes.steps_above(run["loss"], healthy["loss"], onset, margin=0.2, last=10)
            ),
            "and comes down in part": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.8),
        }
