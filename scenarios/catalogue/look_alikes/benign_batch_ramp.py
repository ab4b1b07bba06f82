"""The batch grows by stages: very noisy at first, calmer at each step.

Failure: None. Training begins with one row a batch and doubles it until the batch is full. While it is
    small, loss and gradient norm jump about; at each doubling the noise falls by three tenths.
Mechanism: E|g|^2 = |E g|^2 + sigma^2 / B: while the second term leads, the norm falls with sqrt(B). Early
    in training the first term is large, so that little is lost by a small B.
Injection: From step 0 a batch is its first row repeated, which is bitwise a batch of one row; from
    `first` of the run on its first two, and so on, doubling at even steps until `until`.
Realism: Batch-size warm-up (GPT-3 grew its batch a hundredfold over the first billions of tokens).
References: Reading the Curves (variance of the mini-batch gradient); Brown et al. 2020; McCandlish et
    al. 2018, "An empirical model of large-batch training".
"""

import math
from dataclasses import dataclass

import numpy as np

from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, Scenario


@dataclass(kw_only=True)
class Ramp(Knobs):
    """Shares of the run: how long the batch is one row, and when it is full."""

    first: float = 0.4
    until: float = 0.5

    def __post_init__(self) -> None:
        if not self.until > self.first:
            raise ValueError(f"fault.until: {self.until} is not allowed; allowed: over fault.first")


@register
class BenignBatchRamp(Scenario):
    """One row a batch, then two, four, all."""

    id = "benign_batch_ramp"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("small_batch_oscillation",)
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "grad_norm"
    onset = None
    knobs = Ramp()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Ramp, setup: Setup) -> list[Change]:
        doublings = max(1, math.ceil(math.log2(setup.data.rows)))

        def grow(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            share = (since / setup.steps - knobs.first) / (knobs.until - knobs.first)  # of the way to full
            rows = 2 ** min(doublings, max(0, 1 + math.floor((doublings - 1) * share))) if share >= 0 else 1
            row = np.arange(len(batch.inputs)) % rows
            return Batch(batch.inputs[row], batch.targets[row], batch.weights[row], batch.documents[row])

        return [DataTransform(grow, self.id)]
