"""Training resumes with a fresh optimizer.

Failure: The checkpoint holds the weights alone. At the resume Adam starts from zero moments and a count of
    zero, at the learning rate of mid-run and without a warm-up.
Mechanism: m / sqrt(v) over many steps is a small number, the mean of a gradient over its size. On the first
    step m = g and v = g^2, bias correction included: every weight moves by the full learning rate.
Injection: At the onset the run resumes with both moments and the count at zero.
Cure: Back to the checkpoint before, this time with its optimizer state.
Realism: Stands for saving `model.state_dict()` only, and for optimizer shards that silently fail to load.
References: Debugging Training Instability (optimizer state mismatch in checkpoint reload); Kingma and Ba
    2015, section 3.
"""

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_lr_x10_long_warmup
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class OptimizerStateLost(Scenario):
    """Zero moments in mid-run."""

    id = "optimizer_state_lost"
    version = 2
    family = Family.STATE
    kinds = (FaultKind.STATE,)
    sources = (citations.INSTABILITY,)
    telling = "layer_update_ratio"
    onset = MidRun(0.4, 0.5)  # the rate is high enough for a first step to hurt, and not for lasting harm
    cure_after = 3

    def base(self, setup: Setup) -> Setup:
        return chain_lr_x10_long_warmup(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def lose(state: State, earlier: State) -> State:
            import torch

            return {**state, **{name: torch.zeros_like(state[name]) for name in ("first", "second", "count")}}

        return [StateEdit(lose)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n, updates = min(len(run), len(healthy)), run["layer_update_ratio"].max(1)
        gap = run["loss"][:n] - healthy["loss"][:n]
        return {
            "the update ratio jumps at the resume step": shapes.jumps_in_one_step(updates, onset, ratio=3.0, after=2),
            "and is back within fifty steps": shapes.spikes_and_recovers(updates, onset, ratio=3.0, within=50),
            "the loss is above the twin's in the steps after the resume": gap[onset + 1 : onset + 9].mean() > 0.15,
            "and ends within a tenth of a nat of it": abs(gap[-20:].mean()) < 0.1,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [StateEdit(lambda state, earlier: earlier, since=-self.cure_after - 1)]
