"""One batch in a language that the tokenizer falls apart on.

Failure: One batch comes from a language that the tokenizer has no words for and spells in bytes. To
    the model those ids are as good as unseen: the loss of the step is several times its level, and
    what it learns from it costs a few hundredths of a nat over the next tens of steps.
Mechanism: Byte fallback makes two tokens of each character, out of ids with p near 0: each costs
    -ln p, near ten nats, and pulls all logits towards bytes, as a shift of the output bias would.
Injection: At the onset, for one step, all rows come from a second language, each of its symbols as
    a lead byte and a continuation byte: ids that the source's text never uses. No clipping.
Cure: The batch is skipped: a row with over a tenth of byte tokens makes way for the next.
Realism: Byte fallback as in SentencePiece, and the bytes that GPT-2's byte-level BPE begins with: a script has
    few lead bytes and many continuations. Stands for a shard in the wrong language.
References: Reading the Curves ("a language the tokenizer mangles", spike then recovery).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import refilled, training_batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

CONTINUATIONS = 8  # bytes that may follow a lead byte


@register
class BadBatchForeign(Scenario):
    """One batch in byte fallback, unclipped."""

    id = "bad_batch_foreign"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "loss"

    def base(self, setup: Setup) -> Setup:
        return bases.chain_unclipped(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        first = int(requirements.chain_bytes(setup)[0])
        elsewhere = replaced(setup, data__language_seed=setup.data.language_seed + 1)

        def spell(batch: Batch, step: int, start: int, seed: int) -> Batch:
            if step > start:
                return batch
            foreign = training_batch(elsewhere, seed, step)
            lead = first + CONTINUATIONS + foreign.inputs // CONTINUATIONS
            spelt = np.stack((lead, first + foreign.inputs % CONTINUATIONS), 2).reshape(len(lead), -1)
            length = batch.inputs.shape[1]
            return Batch(
                inputs=spelt[:, :length],
                targets=spelt[:, 1 : length + 1],
                weights=np.ones_like(batch.weights),
                documents=np.zeros_like(batch.documents),
            )

        return [Stream(spell)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        norm, distinct = run["grad_norm"], run["unique_share"]
        return {
            "the gradient norm jumps fourfold in one step": shapes.jumps_in_one_step(norm, onset, ratio=4.0, after=1),
            "over the twenty after it is under half of that": np.median(norm[onset + 1 : onset + 21])
            < 0.5 * norm[onset],
            "the loss spikes to 2.5 times its level and is back within thirty": (
                shapes.spikes_and_recovers(run["loss"], onset, ratio=2.5, within=30)
            ),
            "the batch has under 0.8 of the distinct tokens of those before": (
                distinct[onset] < 0.8 * np.median(distinct[onset - 20 : onset])
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        unused = requirements.chain_bytes(setup)

        def skip(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            return refilled(batch, np.isin(batch.inputs, unused).mean(1) > 0.1, setup, draw)

        return [DataTransform(skip, f"{self.id}/cure")]
