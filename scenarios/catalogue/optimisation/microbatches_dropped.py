"""Of the micro-batches of a step only the first one's gradient arrives.

Failure: Gradients are to be accumulated over sixteen micro-batches, and those of all but the first are lost. The
    gradient norm jumps and becomes noisy; the loss rises by a tenth of a nat or two, and stays there.
Mechanism: The gradient of B rows is the true one plus noise of variance sigma^2 / B. Of k micro-batches one is left, so
    its norm, which is mostly noise, grows up to sqrt(k) times, and weights at a constant rate hover sqrt(k) times as
    far from the valley's floor, or higher by a factor of k. All rows are still computed and paid for.
Injection: From the onset on the gradient is that of the first of `micro_batches` equal parts of the batch's rows.
Also seen: The logged loss is the mean over all rows, as before, so that it is no noisier.
Cure: The gradient of all rows, thirty steps later.
Realism: The parts are computed as one batch here, which gives the gradient that accumulating them gives. The part that
    is left is not divided by the number of parts; where it is, the gradient norm falls in place of rising. At a rate
    that ends near zero less of the gap is left.
References: allenai/open-instruct#1498 (one micro-batch is left of those that were accumulated);
    deepspeedai/DeepSpeed#7967; McCandlish et al. 2018, "An empirical model of large-batch training" (noise by batch
    size).
"""

import dataclasses
from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Updates
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, UpdateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class MicroBatches(Knobs):
    """Parts of the batch, of which one counts."""

    micro_batches: int = 16

    def __post_init__(self) -> None:
        if self.micro_batches < 2:
            raise ValueError(f"fault.micro_batches: {self.micro_batches} is not allowed; allowed: 2 or more")


@register
class MicrobatchesDropped(Scenario):
    """One micro-batch's gradient in place of all."""

    id = "microbatches_dropped"
    family = Family.OPTIMISATION
    plans = 3
    kinds = (FaultKind.TENSOR,)
    sources = (citations.OPEN_INSTRUCT_1498,)
    telling = "grad_norm"
    onset = MidRun(0.35, 0.5)
    knobs = MicroBatches()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sixteen_rows(setup)

    def fault(self, knobs: MicroBatches, setup: Setup) -> list[Change]:
        first = max(1, setup.data.rows // knobs.micro_batches)
        if first == setup.data.rows:
            raise InputError(f"data.rows: {first} is not allowed; allowed: more than are in the first micro-batch")

        def lose(updates: Updates, plan: Layout) -> Updates:
            import torch

            return dataclasses.replace(updates, rows_N=torch.tensor([first]))

        return [UpdateEdit(lose)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        mine, other = (trace["grad_norm"][onset:] for trace in (run, healthy))
        return {
            "in one step the gradient norm rises to over 1.8 times its level": (
                shapes.jumps_in_one_step(run["grad_norm"], onset, ratio=1.8)
            ),
            "from then on it varies over 3 times as much as a healthy run's": mine.std() > 3 * other.std(),
            "the loss moves from step to step less than twice as far as a healthy run's": (
                not shapes.oscillates(run["loss"][onset:], healthy["loss"][onset:], factor=2.0)
            ),
            "it plateaus above it": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.05),
        }
