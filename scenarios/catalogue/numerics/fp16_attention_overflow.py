"""Attention scores in float16 overflow once the logits have grown.

Failure: Scores are formed in float16 before the 1/sqrt(d) is applied, or it never is. Training looks
    normal while the logits grow; at the first score past 65504 everything is NaN within one step.
Mechanism: float16 ends at 65504. Past it q k' is inf, softmax forms inf - inf = NaN, and the gradient
    carries the NaN into every weight. With the scale after the product the logit that overflows is
    65504 / sqrt(d); without a scale it is 65504, but the logits grow sqrt(d) times as fast.
Injection: From the onset on, the kernel that keeps scores in float16 takes over (`fp16_scores`);
    `scaled` says whether it applies 1/sqrt(d), late, or not at all.
Cure: Scale applied and float32 scores, a few steps after the onset.
Realism: Stands for eager float16 attention and kernels that scale late. Logits grow here because of
    a learning rate of 0.08 without weight decay or clipping, one head and a language that does not
    need attention; the twin stays well under the same rate. The exported program has a rate of 0.06 and
    700 steps: at 0.08 and 400, rounding alone moves the final loss nearly as far as another seed.
References: Reading the Curves ("attention is overflowing in fp16 because the scores are computed
    without proper scaling"); Debugging training (loss = NaN after a few steps); Micikevicius et al. 2018.
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Dialect, Setup, replaced
from trainwreck.scenarios.spec.faults import Change, FaultKind, TableEdit, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario

if TYPE_CHECKING:
    from trainwreck.models.tables import Tables


@dataclass(kw_only=True)
class Scale(Knobs):
    """Whether the float16 scores are divided by sqrt(d) after all."""

    scaled: bool = False


@register
class Fp16AttentionOverflow(Scenario):
    """Scores in float16 before, or without, their scale."""

    id = "fp16_attention_overflow"
    family = Family.NUMERICS
    kinds = (FaultKind.VARIANT, FaultKind.TENSOR)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "attention_logit_max"
    onset = MidRun(0.05, 0.15)
    knobs = Scale()
    cure_after = 3
    tolerance = 0.11  # 16 healthy runs of this base end 0.118 nats apart
    program = ("optimizer.lr=0.06", "steps=700")

    def base(self, setup: Setup) -> Setup:
        return replaced(
            setup,
            data__dialect=Dialect.CHAIN,
            model__heads=1,
            optimizer__lr=0.08,
            optimizer__weight_decay=0.0,
            optimizer__clip=None,
            schedule__final_fraction=0.0,
        )

    def fault(self, knobs: Scale, setup: Setup) -> list[Change]:
        changes: list[Change] = [Variant("model.attention", "fp16_scores")]
        return changes if knobs.scaled else [*changes, TableEdit(unscaled)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, logits = run["loss"], run["attention_logit_max"].max(1)
        last = (shapes.non_finite_from(loss) or len(run)) - 1  # step with a finite loss
        return {
            "after the onset the loss turns NaN or infinite for good": shapes.turns_non_finite(loss, onset + 1),
            "the step before, the largest attention logit is over 3 times its highest up to the onset": (
                logits[last] > 3 * logits[: onset + 1].max()
            ),
            "weights end as NaN or infinite": run["nonfinite_weights"][-1] > 0,
        }


def unscaled(tables: "Tables", setup: Setup) -> "Tables":
    """1 in place of 1/sqrt(d)."""
    import torch

    return dataclasses.replace(tables, scale_N=torch.ones_like(tables.scale_N))
