"""The tokenizer changes in mid-run: every id means another token.

Failure: A new version of the tokenizer has a special token more at the front of its table, so all ids
    move by one. The loss jumps over that of guessing, then falls again as the model learns all words anew.
Mechanism: The model is sure, and of the wrong token: -ln p(y') for a y' that it gives p near 0 exceeds
    the entropy of the tokens, which is what guessing costs. The histogram of the ids is the same but
    for its labels, so its entropy does not move.
Injection: From the onset on each id is `added` higher than it was, in inputs and targets.
Cure: The tokenizer that the run began with, some steps after the onset.
Realism: Stands for library updates and added tokens at the front; a permuted table does the same.
References: Debugging Divergent Loss ("tokenization mismatches ... after a tokenizer update");
    Debugging Training Instability (tokenization mismatch; "off-by-one token indices produce garbage").
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Added(Knobs):
    """Tokens added at the front of the table."""

    added: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.added <= 32:
            raise ValueError(f"fault.added: {self.added} is not allowed; allowed: 1 to 32")


@register
class TokenizerMismatch(Scenario):
    """Ids moved by one in mid-run."""

    id = "tokenizer_mismatch"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.INSTABILITY)
    telling = "loss"
    knobs = Added()
    cure_after = 8

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Added, setup: Setup) -> list[Change]:
        def move(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return dataclasses.replace(batch, inputs=batch.inputs + knobs.added, targets=batch.targets + knobs.added)

        return [DataTransform(move, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        entropy = run["token_entropy"]
        over = run["loss"] - entropy
        moved = abs(np.median(entropy[onset:]) - np.median(entropy[:onset]))
        return {
            "the loss, so far under the entropy of the batch's tokens, is over it within one step": (
                over[onset : onset + 3].min() > 0.3 and over[onset - 20 : onset].max() < 0
            ),
            "it ends under it again": over[-20:].mean() < -0.3,
            "that entropy stays what it was": moved < 0.1,
            "the held-out loss, in the old ids, ends above": shapes.plateaus_above(
                run.evaluations[1], healthy.evaluations[1], margin=0.3
            ),
        }
