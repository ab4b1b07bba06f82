"""Pairs of rows of the embedding table are exchanged.

Failure: Some tokens are read as their neighbours in the table: every sentence that has one of them says
    something else than what stands there. The table itself is as good as ever.
Mechanism: e'(x) = e(s(x)) with s exchanging ids in pairs. The model predicts p(next | s(x)) with full
    confidence, so a mistaken token costs more than an unknown one, and its gradient is large; as rows
    are trained where they now stand, the mistake is unlearnt.
Injection: From the onset on, the ids 2 i and 2 i + 1 exchange rows, for i under `pairs`. Targets are
    right. The gradient arrives at the row that was used.
Cure: The right rows, two steps after the onset: later, what was relearnt is lost a second time.
Realism: Stands for a tokenizer whose merges or special tokens were sorted anew between runs.
References: Debugging Training Instability (tokenization); Reading the Curves (loss jumps).
"""

from dataclasses import dataclass

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import Layout
from trainwreck.models.parametrization import Parametrization
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, ParametrizationEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Pairs(Knobs):
    """How many pairs of ids are exchanged."""

    pairs: int = 8

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ValueError(f"fault.pairs: {self.pairs} is not allowed; allowed: 1 or more")


@register
class EmbeddingRowsSwapped(Scenario):
    """Rows of the token table are exchanged in pairs."""

    id = "embedding_rows_swapped"
    family = Family.COMPONENTS
    kinds = (FaultKind.TENSOR,)
    sources = (citations.INSTABILITY, citations.READING_CURVES)
    telling = "loss"
    knobs = Pairs()
    cure_after = 2

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Pairs, setup: Setup) -> list[Change]:
        def exchange(parametrization: Parametrization, plan: Layout) -> Parametrization:
            pairs = plan.places("embedding.weight")[: 2 * knobs.pairs].unflatten(0, (-1, 2))
            return parametrization.moved(pairs, pairs.flip(1), plan.size)

        return [ParametrizationEdit(exchange)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm = run["layer_weight_norm"][onset - 1 : onset + 1, 0]
        return {
            "the weight norm of the embedding does not move at the onset": abs(norm[1] / norm[0] - 1) < 0.02,
            "the loss jumps within one step": shapes.jumps_in_one_step(run["loss"], onset, ratio=1.2, after=3),
            "and comes back by over seven tenths": shapes.readapts(run["loss"], healthy["loss"], onset, share=0.3),
        }
