"""Rotary positions turn at the wrong frequencies: neighbours can't be told apart.

Failure: A position-interpolation factor meant for a longer context is applied to this one. All
    angles shrink by that factor, and short distances, which carry most of the structure, blur.
Mechanism: The angle of pair j at distance n is n * base^(-2j/d) / stretch. What the model can resolve
    is the angle of the fastest pair, n / stretch; at stretch 24 a distance of 3 is where 1/8 was.
Injection: From the onset on, query and key tables are built with `stretch`.
Cure: The right frequencies, a few steps after the onset.
Realism: Stands for `rope_scaling` left in a config, wrong bases, and positions counted in the wrong
    unit. A wrong base from step 0 is nearly absorbed by training (0.02 nats); switched on in
    mid-run, as at a resume with another config, it is not.
References: Reading the Curves ("RoPE rotated with the wrong frequencies"); Chen et al. 2023,
    "Extending context window of large language models via positional interpolation".
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Stretch(Knobs):
    """By how much all rotary angles are divided."""

    stretch: float = 16.0


@register
class RopeWrongFrequency(Scenario):
    """All rotary frequencies divided by a factor."""

    id = "rope_wrong_frequency"
    family = Family.ATTENTION
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "age_loss"
    severities = {
        Severity.SUBTLE: Stretch(stretch=6.0),
        Severity.CLEAR: Stretch(stretch=24.0),
        Severity.SEVERE: Stretch(stretch=96.0),
    }
    cure_after = 15

    def fault(self, knobs: Stretch, setup: Setup) -> list[Change]:
        requirements.rotary(setup)

        def stretch(tables: "Tables", setup: Setup) -> "Tables":
            from trainwreck.models.rotary import rotary_table

            model = setup.model
            table = rotary_table(model.context, model.head_width, model.rope_base, stretch=knobs.stretch)[None]
            return dataclasses.replace(tables, rotary_q_NTK=table, rotary_k_NTK=table)

        return [TableEdit(stretch)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, usual = (trace["loss"][onset : onset + 3].mean() for trace in (run, healthy))
        late = slice(-100, None)
        flat = shapes.flat_over_position(run["age_loss"][late], healthy["age_loss"][late], share=0.95)
        return {
            "the loss jumps at the onset": loss > usual + 0.5,
            "it plateaus above the twin's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.03),
            "it falls less with the age of a document than the twin's": flat,
        }
