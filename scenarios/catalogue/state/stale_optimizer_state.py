"""Training resumes with second moments of another step.

Failure: At a resume the weights, the first moments and the step count are current, and the second
    moments are from the first steps of the run. The next updates are many times too large.
Mechanism: Adam divides by sqrt(v / (1 - beta2^t)). A v from step k holds (1 - beta2^k) of the
    gradient's square, and the late t no longer corrects for that, so updates are
    1 / sqrt(1 - beta2^k) times too large: 32 times for k = 1 and the usual beta2 = 0.999, and still 3
    times a hundred steps later.
Injection: At the onset the run resumes from its checkpoint, with `second` as it was after `step` updates.
Signature: The update ratio jumps at the resume step and the loss right after; the jump fades as v
    fills up again.
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
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario, Severity


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

    def signature(self, run: Trace, healthy: Trace, onset: int) -> bool:
        updates = run["layer_update_ratio"].max(1)
        loss = run["loss"][onset : onset + 12].mean() - healthy["loss"][onset : onset + 12].mean()
        fades = updates[onset + 80 : onset + 100].mean() < 0.5 * updates[onset : onset + 5].max()
        return shapes.jumps_in_one_step(updates, onset, ratio=3.0) and bool(loss > 0.1 and fades)

    def cure(self, knobs: Stale, setup: Setup) -> list[Change]:
        def reset(state: State, earlier: State) -> State:
            import torch

            zero = {name: torch.zeros_like(state[name]) for name in ("first", "second", "count")}
            return {**state, **zero}

        def rewarm(rate: float, since: int, setup: Setup) -> float:
            return rate * min(1.0, (since + 1) / 20)

        return [StateEdit(reset), Curve(rewarm)]
