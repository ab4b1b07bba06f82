"""The loss is summed over tokens where it should be averaged.

Failure: A change of the loss's reduction, from mean to sum. The logged loss is that of a whole batch,
    and every gradient is as many times too large as a batch has tokens.
Mechanism: d/dw sum_i l_i = n * d/dw mean_i l_i, so plain SGD at rate lr steps as at n * lr: n is in the
    hundreds, far over the stability limit, lr * curvature < 2 (1 + momentum). Adam divides the factor out
    and clipping at 1 hides it; then only the log looks odd, and clipping is at work at every step.
Injection: From the onset on the training loss is the sum over the batch's scored tokens.
Cure: The mean again, resumed six steps later from the state at the onset: what such steps have
    done can't be trained away.
Realism: Stands for a rewritten loss, and for frameworks that disagree on the default. Nothing
    normalises the step here: SGD with momentum, no clip.
References: Debugging training (bug in the loss: "wrong reduction"); Debugging Training Instability
    ("check loss function").
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Reduction, Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class LossWrongReduction(Scenario):
    """Sum in place of mean."""

    id = "loss_wrong_reduction"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "loss"
    cure_after = 6

    def base(self, setup: Setup) -> Setup:
        return bases.chain_sgd(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Setting("reduction", Reduction.SUM)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        before = slice(max(0, onset - 20), onset)
        loss = run["loss"][onset] / np.median(run["loss"][before])
        norm = run["grad_norm"][onset] / np.median(run["grad_norm"][before])
        return {
            "the loss jumps in one step to 50 to 1000 times its level": 50 < loss < 1000,
            "which is the number of tokens of the batch, within a factor of two": 0.5 < loss / run["tokens"][onset] < 2,
            "the gradient norm jumps by the same factor, within a factor of five": 0.2 * loss < norm < 5 * loss,
            "then the run diverges": shapes.diverges(run["loss"], rise=10.0),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def rewind(state: State, earlier: State) -> State:
            return earlier

        return [Undo(), StateEdit(rewind, since=-self.cure_after)]
