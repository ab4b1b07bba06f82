"""Sequences grow without bound: each step costs more than the one before.

Failure: Nothing caps the length of a row any more, and rows grow with every step: agents that append to
    their own history, logs that are never rotated. Tokens and time of a step climb together.
Mechanism: A batch is computed as long as its longest row, so a step's time is B * max_b(T_b), and
    attention's share of it grows with the square.
Injection: Rows are capped at eight tokens; from the onset on they gain one more every `every` steps until
    the model's context is full.
Cure: The cap, some steps after the onset.
Realism: On a modelled clock that goes with the padded length, without attention's square. Growth stops
    at the context's end, where a real run dies for want of memory.
References: Debugging Training Instability ("do sequence lengths explode?").
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch, cut
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Growth(Knobs):
    """Steps in which rows gain one token."""

    every: int = 4

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"fault.every: {self.every} is not allowed; allowed: 1 or more")


@register
class SequenceLengthExplosion(Scenario):
    """Rows that gain a token every few steps."""

    id = "sequence_length_explosion"
    family = Family.DATA
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY,)
    telling = "step_seconds"
    knobs = Growth()
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return replaced(bases.chain(setup), data__longest=8)

    def fault(self, knobs: Growth, setup: Setup) -> list[Change]:
        whole = replaced(setup, data__longest=0)

        def grow(batch: Batch, step: int, start: int, seed: int) -> Batch:
            longest = setup.data.longest + 1 + (step - start) // knobs.every
            return cut(training_batch(whole, seed, step), longest)

        return [Stream(grow)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        def climbs(name: str) -> bool:
            parts = np.array([part.mean() for part in np.array_split(run[name][onset:], 4)])
            before = run[name][:onset].mean()
            never_back = bool((parts[1:] > 0.97 * parts[:-1]).all())  # the clock's jitter is under a hundredth
            return never_back and bool(parts[0] > 1.05 * before and parts[-1] > 2 * before)

        speed = run["tokens_per_second"]
        return {
            "from the onset on a batch's tokens climb to twice their level": climbs("tokens"),
            "so do the seconds of a step": climbs("step_seconds"),
            "throughput stays within a tenth of its level": abs(speed[onset:].mean() / speed[:onset].mean() - 1) < 0.1,
        }
