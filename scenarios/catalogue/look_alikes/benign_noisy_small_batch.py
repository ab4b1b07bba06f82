"""Batch of one: very noisy curves that converge all the same.

Failure: None. In mid-run the job moves to a smaller machine, where a batch is one row in place of eight,
    and the rate is lowered with it. Loss and gradient norm jump about by multiples of what they did,
    and the average goes on as the twin's.
Mechanism: Var(g) = sigma^2 / B: with an eighth of the batch the gradient's noise is sqrt(8) times as
    large, and a norm that is mostly noise grows by as much. The smaller rate averages it out again.
Injection: From the onset on, every row of a batch is its first one, which is a batch of one row to
    the bit, and the rate is `rate` times the twin's.
Realism: "Batch size one", as published logs of healthy runs show it. With the rate of the large batch
    the same curves are a fault: oscillation for a batch too small.
References: Reading the Curves (loss oscillates without converging; variance of the mini-batch
    gradient); Debugging Training Instability (small batch sizes).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, Scaled
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Small(Knobs):
    """Rows of a batch, and the factor on the learning rate that goes with them."""

    rows: int = 1
    rate: float = 0.2


@register
class BenignNoisySmallBatch(Scenario):
    """One row a batch, at a lower rate."""

    id = "benign_noisy_small_batch"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("small_batch_oscillation",)
    kinds = (FaultKind.DATA, FaultKind.SETTING)
    sources = (citations.READING_CURVES, citations.INSTABILITY)
    telling = "grad_norm"
    knobs = Small()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Small, setup: Setup) -> list[Change]:
        def shrink(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            row = np.arange(len(batch.inputs)) % knobs.rows
            return Batch(batch.inputs[row], batch.targets[row], batch.weights[row], batch.documents[row])

        return [DataTransform(shrink, self.id), Scaled("optimizer.lr", knobs.rate)]
