"""New words keep appearing: one by one, old tokens get a second form.

Failure: The language of the source drifts. Every few steps one more word is written in a new way half of
    the time, with an id that the model has never seen. No step is remarkable; against a run on the old
    text the loss rises all the time.
Mechanism: A word with two equally likely forms has ln 2 more entropy, and each new form must be learnt from its
    few occurrences: the floor rises by ln 2 times the share of the text that has drifted, and the loss is above
    the floor by what has not been learnt yet.
Injection: From the onset on the source's commonest word, and every `every` steps one more in an order drawn
    from the seed, is replaced by an unused id with probability one half, in inputs and targets.
Cure: The corpus is refreshed: all forms are mapped to the words they stand for.
Realism: Stands for new programming languages in a code corpus and new names in the news.
References: Debugging Divergent Loss (vocabulary drift; "the distribution of tokens in the training corpus
    shifts").
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Drift(Knobs):
    """Steps from one new form to the next."""

    every: int = 5

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"fault.every: {self.every} is not allowed; allowed: 1 or more")


@register
class VocabularyDrift(Scenario):
    """One more word with a new form every few steps."""

    id = "vocabulary_drift"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS,)
    telling = "unique_share"
    knobs = Drift()
    cure_after = 40

    def base(self, setup: Setup) -> Setup:
        return bases.chain(setup)

    def fault(self, knobs: Drift, setup: Setup) -> list[Change]:
        unused = requirements.chain_bytes(setup)
        words = int(unused[0])
        commonest = int(np.bincount(validation(setup)[0].inputs.ravel()).argmax())

        def drift(batch: Batch, step: int, start: int, seed: int) -> Batch:
            order = generator(seed, f"fault/{self.id}/order").permutation(words)
            drifted = [commonest, *order[: (step - start) // knobs.every]]
            share = 1.0 if step == start else 0.5  # the onset is the first batch with a new form
            tokens = np.concatenate((batch.inputs, batch.targets[:, -1:]), 1)
            hit = np.isin(tokens, drifted) & (generator(seed, f"fault/{self.id}", step).random(tokens.shape) < share)
            tokens = np.where(hit, unused[tokens % words], tokens)
            return dataclasses.replace(batch, inputs=tokens[:, :-1], targets=tokens[:, 1:])

        return [Stream(drift)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        gap = run["loss"][onset:] - healthy["loss"][onset : len(run)]
        early, middle, late = (part.mean() for part in np.array_split(gap, 3))
        distinct = run["unique_share"]
        return {
            "the gap to a healthy run's loss grows from the first third after the onset to the second": (
                middle > early + 0.08
            ),
            "and on to the last": late > middle + 0.08,
            "in the end batches have 1.15 times as many distinct tokens": (
                np.median(distinct[-20:]) > 1.15 * np.median(distinct[:onset])
            ),
        }
