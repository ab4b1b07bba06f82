"""Experts without a balance loss.

Failure: A router sends most tokens to a few experts. These are full, so that most tokens are dropped and pass the layer
    untouched; the other experts are hardly trained. The loss stalls 0.2 to 0.3 nats over the twin's.
Mechanism: The gradient reaches the experts that were chosen, and through their gates the router. An expert that is
    chosen more often gets better sooner, and so is chosen more often. Nothing but the balance loss works against that.
Injection: From the onset on, the balance loss has `factor` times its weight in the objective.
Also seen: The share of dropped tokens rises.
Cure: The balance loss has its weight again, ten steps later.
Realism: A second stage of training whose configuration has no balance loss, as reinforcement learning had in verl until
    it was exposed. Simplified: sixteen experts in one layer, a router whose weights start at a standard deviation of 2
    in place of 0.02, and an onset in the first eighth of the run, while experts begin to differ. From a third of it on
    a router drifts and little is lost; a fault from step 0 is past cure after some tens of steps (both seen at a rate
    of 0.01). Of 49 healthy runs three end some 0.1 nats over the others.
References: Fedus et al. 2021 (the balance loss); Shazeer et al. 2017 (a state where few experts get large weights
    reinforces itself); verl-project/verl#4103 (a trainer without it).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class Balance(Knobs):
    """Weight of the balance loss, over the healthy one."""

    factor: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.factor < 1:
            raise ValueError(f"fault.factor: {self.factor} is not allowed; allowed: 0 to less than 1")


@register
class MoeRouterCollapse(Scenario):
    """Few experts get nearly all tokens."""

    id = "moe_router_collapse"
    family = Family.ARCHITECTURE
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.SWITCH, citations.VERL_4103)
    telling = "expert_load_entropy"
    onset = MidRun(0.09, 0.12)
    severities = {
        Severity.SUBTLE: Balance(factor=0.02),
        Severity.CLEAR: Balance(factor=0.01),
        Severity.SEVERE: Balance(factor=0.0),
    }
    cure_after = 10
    tolerance = 0.1

    def base(self, setup: Setup) -> Setup:
        return bases.rules_experts(setup)

    def fault(self, knobs: Balance, setup: Setup) -> list[Change]:
        requirements.positive(setup, "model.experts")
        return [Scaled("routing.balance_loss", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)

        def apart(signal: str) -> float:
            return float(np.median(run[signal][late]) / np.median(healthy[signal][late]))

        return {
            "the entropy of the experts' loads is under 0.88 of a healthy run's in the last quarter": (
                apart("expert_load_entropy") < 0.88
            ),
            "the largest load is over 1.7 times a healthy run's": apart("expert_load_max") > 1.7,
            "so is the balance loss, as far as it is computed": apart("balance_loss") > 1.7,
            "the loss is above a healthy run's there": float(np.mean((run["loss"] - healthy["loss"])[late])) > 0.03,
        }
