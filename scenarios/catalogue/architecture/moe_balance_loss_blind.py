"""A balance loss that does not see the loads.

Failure: The logged balance loss is flat, at the value that even loads would have. Meanwhile a router sends most tokens
    to a few experts, which drop what they have no room for, and the loss stalls.
Mechanism: E * sum_e share_e * P_e is least where loads are even, if P_e is the mean probability of an expert over the
    tokens. Over the experts of each token the mean is 1 / E, whatever the router does: the loss is 1, and its gradient
    is 0.
Injection: From the onset on, the mean of the probabilities is taken over the experts and not over the tokens.
Also seen: The share of dropped tokens rises.
Cure: The mean is over the tokens again, ten steps later.
Realism: A shape or an axis that fits by broadcasting. Routers also learn to game a loss that can be gamed, which looks
    the same. Simplified: sixteen experts in one layer, a router whose weights start at a standard deviation of 2 in
    place of 0.02, and an onset in the first eighth of the run, while experts begin to differ; from a third of it on
    little is lost.
References: mindspore-ai/hyper-parallel#752 (a balance loss that is constant by broadcasting);
    NVIDIA/Megatron-LM#1545 (one that routers push under its least value); Fedus et al. 2021 (the balance loss).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.experts import BalanceAxis
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class MoeBalanceLossBlind(Scenario):
    """The balance loss is constant while loads drift."""

    id = "moe_balance_loss_blind"
    family = Family.ARCHITECTURE
    plans = 3
    kinds = (FaultKind.SETTING,)
    sources = (citations.HYPER_PARALLEL_752, citations.MEGATRON_1545)
    telling = "balance_loss"
    onset = MidRun(0.09, 0.12)
    cure_after = 10
    tolerance = 0.1

    def base(self, setup: Setup) -> Setup:
        return bases.rules_experts(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        requirements.positive(setup, "model.experts")
        return [Setting("routing.balance_axis", BalanceAxis.EXPERTS)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        late = slice(-len(run) // 4, None)

        def apart(signal: str) -> float:
            return float(np.median(run[signal][late]) / np.median(healthy[signal][late]))

        return {
            "from the onset on the balance loss is within 0.001 of 1, that of even loads": bool(
                (abs(run["balance_loss"][onset:] - 1) < 0.001).all()
            ),
            "the entropy of the experts' loads is under 0.88 of a healthy run's in the last quarter": (
                apart("expert_load_entropy") < 0.88
            ),
            "the largest load is over 1.7 times a healthy run's": apart("expert_load_max") > 1.7,
            "the loss is above a healthy run's there": float(np.mean((run["loss"] - healthy["loss"])[late])) > 0.03,
        }
