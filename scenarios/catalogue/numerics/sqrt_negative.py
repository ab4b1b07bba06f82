"""A variance by E[x^2] - E[x]^2 goes negative where activations are large.

Failure: A norm computes its variance in one pass. It is right while the mean is small beside the spread;
    once it is not, rounding makes the difference negative, and the root of it is NaN.
Mechanism: E[x^2] and E[x]^2 are near mean^2, each with an error of mean^2 * 2^-24. Their difference is off by
    as much: with a mean of 800 by 0.04 and more, where the variance of a token's features is about 0.02.
Injection: From the onset on, norms take one pass, and the token embeddings stand on a common offset of
    `offset`. A two-pass LayerNorm takes any common offset away.
Cure: A checkpoint from before the onset, with the offset, under two passes: the offset does no harm.
Realism: Stands for fused norms that accumulate sum and sum of squares (Welford 1962 is the usual cure).
    Simplified: real streams drift to a large mean; here it is there at once.
References: Recognizing the symptoms of training instability ("the square root of a negative number");
    Chan, Golub and LeVeque 1983.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Variance
from trainwreck.models.parameters import layout
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit, Undo, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Offset(Knobs):
    """What every feature of every token's embedding is moved by."""

    offset: float = 800.0


def moved(setup: Setup, offset: float) -> Callable[[State], State]:
    """A state to the same with every embedding moved by `offset`."""
    slot = layout(setup.model).slot("embedding.weight")

    def move(state: State) -> State:
        parameters = state["parameters"].clone()
        parameters[slot.start : slot.stop] += offset
        return {**state, "parameters": parameters}

    return move


@register
class SqrtNegative(Scenario):
    """The root of a variance that cancelled."""

    id = "sqrt_negative"
    family = Family.NUMERICS
    version = 2
    kinds = (FaultKind.VARIANT, FaultKind.STATE)
    sources = (citations.SYMPTOMS,)
    telling = "activation_max"
    knobs = Offset()
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Offset, setup: Setup) -> list[Change]:
        move = moved(setup, knobs.offset)
        edit = StateEdit(lambda state, earlier: move(state), resume=False)
        return [Variant("model.variance", Variance.ONE_PASS), edit]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, large = run["loss"], run["activation_max"].max(1)
        dead = shapes.non_finite_from(loss)
        last = (dead or len(run)) - 1  # step with a finite loss
        return {
            "at the onset or later the loss turns NaN or infinite for good": shapes.turns_non_finite(loss, onset),
            "unless at the onset, the largest activation before is over 5 times its level": (
                dead == onset or large[last] > 5 * np.median(large[:onset])
            ),
            "the last finite loss is normal": loss[last] < healthy["loss"][max(0, last - 9) : last + 1].mean() + 0.5,
            "weights end as NaN or infinite": run["nonfinite_weights"][-1] > 0,
        }

    def cure(self, knobs: Offset, setup: Setup) -> list[Change]:
        move = moved(setup, knobs.offset)
        restore = StateEdit(lambda state, earlier: move(earlier), since=-self.cure_after - 1)
        return [Undo(), restore]
