"""The answer is in the input: the loss falls under the entropy of the data.

Failure: From the onset on every token is preceded by a field that encodes it. The loss drops within some
    tens of steps under what the data allows, and the model on real text is worse with every step.
Mechanism: The entropy rate H(y | x) is the least loss of any model that sees x. One that sees f(y) as
    well has H(y | x, f(y)) = 0. Nothing asks for the way from x to y any more.
Injection: From the onset on a row is x0 f(x1) x1 f(x2) x2 ..., f an id that the source's text never
    uses. Only real tokens are scored.
Cure: The field is removed.
Realism: Stands for target columns among the features, answers in the prompt's metadata, file names
    with the label in them.
References: Debugging Training Instability (label leak); Debugging Divergent Loss ("illusions of
    progress").
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class LabelLeak(Scenario):
    """Each token announced by a field before it."""

    id = "label_leak"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY, citations.DIVERGENT_LOSS)
    telling = "loss"
    cure_after = 15

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        first = int(requirements.chain_bytes(setup)[0])

        def announce(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            half = batch.inputs.shape[1] // 2
            tokens, targets = batch.inputs[:, :half], batch.targets[:, :half]
            fields = first + targets
            beyond = batch.inputs[:, 1 : half + 1]  # what follows the field is the target itself

            def woven(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
                return np.stack((even, odd), 2).reshape(len(even), -1)

            return Batch(
                inputs=woven(tokens, fields),
                targets=woven(fields, beyond),
                weights=woven(np.zeros_like(batch.weights[:, :half]), batch.weights[:, :half]),
                documents=np.repeat(batch.documents[:, :half], 2, axis=1),
            )

        return [DataTransform(announce, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        under = shapes.falls_under(run["loss"], healthy["loss"], margin=0.7)
        mine, other = (t.evaluations[1][-1] for t in (run, healthy))
        return {
            "the training loss ends 0.7 nats under a healthy run's": under,
            "the held-out loss, without the field, ends above": mine > other + 0.1,
        }
