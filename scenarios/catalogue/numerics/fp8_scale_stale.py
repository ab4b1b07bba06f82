"""The scales of float8 are those of an old checkpoint, and no longer follow the values.

Failure: A run in float8 is resumed. Weights and optimizer come back as they were, the record of largest magnitudes as
    it was long ago, and nothing is added to it from then on. Most values of some matrices lie beyond what the format
    holds and become its largest number. The loss jumps, and settles above where it was going.
Mechanism: E4M3 ends at 448. With delayed scaling a tensor is multiplied by s = 448 / max |x| over the last steps, cast,
    and the product is divided by s again. If |x| has grown k times since, all beyond 448 / s, a k-th of the largest, is
    one number, and the gradient, which the cast lets through, goes on to push it outwards.
Injection: At the onset the run is resumed with the history of every tensor that the first step left; from then on it is
    not updated.
Also seen: Weights grow in the saturated matrices. Where the scales are made fresh, the loss jumps once more.
Cure: The history is updated again, ten steps later; the scales are right from the next step on.
Realism: Weights start small, so that they are ten times as large in some hundred steps. Products in the layers alone
    are in float8, forward; the usual recipe has the gradients in E5M2, and head and embedding in neither. Scales too
    small for the values, after a history with one huge value in it, flush them to zero instead.
References: Micikevicius et al. 2022, "FP8 formats for deep learning"; NVIDIA/TransformerEngine#567 (a history that is
    meaningless after a checkpoint was loaded); NVIDIA/TransformerEngine#982; NVIDIA/Megatron-LM#442 (divergence after
    a thousand steps, largest magnitudes were reduced over the wrong ranks).
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class Fp8ScaleStale(Scenario):
    """Scales from the first step."""

    id = "fp8_scale_stale"
    family = Family.NUMERICS
    plans = 3
    kinds = (FaultKind.STATE, FaultKind.SETTING)
    sources = (citations.TRANSFORMER_ENGINE_567,)
    telling = "float8_saturated"
    cure_after = 10

    def base(self, setup: Setup) -> Setup:
        return bases.echo_fp8(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [StateEdit(with_old_history, since=1), Setting("precision.amax_updates", False)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, saturated = run["loss"], run["float8_saturated"]
        return {
            "in the twenty steps before the onset under 1 % of any operand's values are past float8's largest": (
                saturated[onset - 20 : onset].max() < 0.01
            ),
            "from it on over half of the values of some operand are": saturated[onset:].min() > 0.5,
            "at the onset the loss jumps": shapes.steps_above(loss, healthy["loss"], onset, margin=0.3),
            "and it plateaus above a healthy run's": shapes.plateaus_above(loss, healthy["loss"], margin=0.1),
        }


def with_old_history(state: State, earlier: State) -> State:
    """The history of the earlier checkpoint."""
    return {**state, "amax_history": earlier["amax_history"]}
