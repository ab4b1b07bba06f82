"""Training resumes with second moments of another step.

Failure: At a resume the weights, the first moments and the step count are current, and the second
    moments are from the first steps of the run. The next updates are many times too large.
Mechanism: Adam divides by sqrt(v / (1 - beta2^t)). A v from step k holds (1 - beta2^k) of the
    gradient's square, and the correction is for step t, so updates are
    sqrt((1 - beta2^t) / (1 - beta2^k)) times too large. For beta2 = 0.999 and k = 1 that is 13 times at
    t = 200, and 1.6 times a hundred steps later; in a long run 32 times, and then 3 times.
Injection: At the onset the run resumes from its checkpoint, with `second` as it was after `step` updates.
Cure: The optimizer is reset and re-warmed: zero moments and a count of zero at the step after the
    resume, with the learning rate ramped up over twenty steps.
Realism: Stands for sharded optimizer checkpoints of which a shard was never rewritten. Simplified:
    all second moments are stale.
References: Debugging Training Instability ("optimizer state mismatch in checkpoint reload: stale
    momentum makes resumed training explode"); Kingma and Ba 2015, section 3.
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.faults import Change, Curve, FaultKind, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Stale(Knobs):
    """How many updates the second moments have seen."""

    step: int = 2


@register
class StaleOptimizerState(Scenario):
    """Second moments from the first steps, everything else current."""

    id = "stale_optimizer_state"
    family = Family.STATE
    kinds = (FaultKind.STATE,)
    sources = (citations.INSTABILITY,)
    telling = "layer_update_ratio"
    severities = {
        Severity.SUBTLE: Stale(step=5),
        Severity.CLEAR: Stale(step=2),
        Severity.SEVERE: Stale(step=1),
    }
    cure_after = 1

    def base(self, setup: Setup) -> Setup:
        return replaced(setup, optimizer__beta2=0.999)

    def fault(self, knobs: Stale, setup: Setup) -> list[Change]:
        def go_stale(state: State, earlier: State) -> State:
            return {**state, "second": earlier["second"]}

        return [StateEdit(go_stale, since=knobs.step)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        updates, soon = run["layer_update_ratio"].max(1), slice(onset, onset + 12)
        later = updates[onset + 80 : onset + 100]
        return {
            "the update ratio jumps at the resume step": shapes.jumps_in_one_step(updates, onset, ratio=3.0),
            "the loss is above the twin's right after": run["loss"][soon].mean() - healthy["loss"][soon].mean() > 0.1,
            "the jump of the update ratio has faded by half eighty steps later": (
                len(later) > 0 and later.mean() < 0.5 * updates[onset : onset + 5].max()
            ),
        }

    def cure(self, knobs: Stale, setup: Setup) -> list[Change]:
        def reset(state: State, earlier: State) -> State:
            import torch

            zero = {name: torch.zeros_like(state[name]) for name in ("first", "second", "count")}
            return {**state, **zero}

        def rewarm(rate: float, since: int, setup: Setup) -> float:
            return rate * min(1.0, (since + 1) / 20)

        return [StateEdit(reset), Curve(rewarm)]
