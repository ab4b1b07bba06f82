"""An overflow is handled on the rank that has it, and nowhere else.

Failure: In fp16 with a dynamic loss scale, a rank whose own gradient overflows skips its step, leaves its
    gradient out and halves its scale; the others step on. From then on the ranks hold different
    weights and different scales.
Mechanism: The average is taken of scaled gradients and unscaled by each rank's own scale, so rank r steps
    with mean_q(s_q g_q) / s_r: twice as far where s_r is half the others'. The weights drift apart.
Injection: From the onset on, ranks look at their own gradient for overflows, not at the average, and tell
    nobody. The scale is tried at its limit every ten steps, so overflows are frequent.
Cure: The overflow flag is shared, so all skip or none does, and all ranks resume from the first one's
    checkpoint, thirty steps later.
Realism: "Are fp16 overflow settings consistent across workers?" Stands for hand-written scalers and sharded
    gradients, where no rank sees all of them; scalers made for that share the flag.
References: Debugging Training Instability (consistent loss scaling); Micikevicius et al. 2018; Zhao et al.
    2023, PyTorch FSDP (sharded gradient scaler).
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Format
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import Change, FaultKind, Process, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class DdpLossScaleInconsistent(Scenario):
    """Each rank keeps a loss scale of its own."""

    id = "ddp_loss_scale_inconsistent"
    family = Family.DISTRIBUTED
    kinds = (FaultKind.PROCESS,)
    sources = (citations.INSTABILITY,)
    telling = "rank_weight_hash"
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return replaced(
            bases.chain_sgd_four_ranks(setup),
            precision__format=Format.FP16,
            precision__dynamic=True,
            precision__loss_scale=2.0**12,
            precision__growth_interval=10,
        )

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def tell_nobody(exchange: Exchange) -> Exchange:
            return dataclasses.replace(exchange, alone=True)

        return [Process(tell_nobody)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        agree = shapes.agreement(run["rank_weight_hash"])
        first = int(np.argmax(agree < 1))  # 0 where they never differ
        above = run["loss"][-40:].mean() - healthy["loss"][-40:].mean()
        return {
            "the ranks' weight hashes are equal until a step is skipped": first > 0 and bool(run["skipped"][first - 1]),
            "and differ from the next one on": shapes.pinned_at(agree[first:], 0.0, 0.99),
            "the loss ends above the twin's": not above < 0.1,
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Undo(), StateEdit(lambda state, earlier: state)]
