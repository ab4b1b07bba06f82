"""A frequent token maps to nothing: it comes out as padding.

Failure: After an update the tokenizer knows one word no longer and emits padding for it. The loss makes a
    small step, the share of padding one to a tenth, and the model forgets the word.
Mechanism: Padding is neither seen nor scored, so the token's own share of the loss goes, and with it
    what it told of the token after it: that target drops out too, and the topic loses evidence.
Injection: From the onset on every occurrence of the source's most frequent token is padding.
Cure: The mapping is repaired, some steps after the onset.
Realism: The incident that Debugging Divergent Loss describes. Simplified: the hole stays in place as
    padding, where some tokenizers would close the gap.
References: Debugging Divergent Loss ("a token that maps to an empty string after a tokenizer update";
    per-example logging of token counts).
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class TokenToEmpty(Scenario):
    """The most frequent token becomes padding."""

    id = "token_to_empty"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "pad_share"
    cure_after = 15

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        lost = int(np.bincount(validation(setup)[0].inputs.ravel()).argmax())

        def empty(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            unseen, unscored = batch.inputs == lost, batch.targets == lost
            return dataclasses.replace(
                batch,
                weights=np.where(unseen | unscored, np.float32(0), batch.weights),
                documents=np.where(unseen, -1, batch.documents),
            )

        return [DataTransform(empty, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        padding, after = run["pad_share"], slice(onset, onset + 40)
        mine, other = (t["loss"][after].mean() for t in (run, healthy))
        return {
            "over 3 % of the tokens are padding from the onset on, none before": (
                padding[onset:].mean() > 0.03 and not padding[:onset].any()
            ),
            "the number of tokens drops": shapes.drops_in_one_step(run["tokens"], onset, ratio=0.95),
            "the loss of forty steps is within 0.3 nats of a healthy run's": abs(mine - other) < 0.3,
            "the held-out loss ends above": run.evaluations[1][-1] > healthy.evaluations[1][-1] + 0.1,
        }
