"""The learning rate is too large for the batch size.

Failure: Loss and gradient norm bounce up and down without a trend. Every step is taken on the noise of two
    rows, and long enough to undo the last.
Mechanism: The gradient of B rows has variance sigma^2 / B. At the rate lr the weights hover around the
    valley's floor at a height that grows as lr * sigma^2 / B: a rate that sixteen rows bear is far too high
    for two.
Injection: The rate is `factor` times the twin's from step 0 on; batches have two rows in both.
Also seen: Two rows alone make a loss jump about, so that the loss's own swings tell less.
Cure: Gradients of `micro_batches` batches are accumulated before each update, at the same high rate.
Realism: The documented remedy "accumulate gradients over more micro-steps", here as one batch of as many rows,
    which has the same gradient. A rate copied from a run with a larger batch.
References: Reading the Curves (loss oscillates without converging); Recognizing the symptoms (oscillating
    loss); McCandlish et al. 2018, "An empirical model of large-batch training".
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, get
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled, Setting
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Rate(Knobs):
    """The rate over the healthy one, and the micro-batches that would bear it."""

    factor: float = 24.0
    micro_batches: int = 8


@register
class SmallBatchOscillation(Scenario):
    """A rate for large batches on small ones."""

    id = "small_batch_oscillation"
    family = Family.OPTIMISATION
    kinds = (FaultKind.SETTING,)
    sources = (citations.SYMPTOMS, citations.READING_CURVES)
    telling = "loss"
    onset = None
    knobs = Rate()
    tolerance = 0.055  # 16 healthy runs of this base end 0.054 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.chain_two_rows(setup)

    def fault(self, knobs: Rate, setup: Setup) -> list[Change]:
        return [Scaled("optimizer.lr", knobs.factor)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        half = len(run) // 2
        loss = run["loss"][half:]
        mine, other = (np.log(t["grad_norm"][half:]) for t in (run, healthy))
        early, late = (float(part.mean()) for part in np.array_split(loss, 2))
        swings = shapes.oscillates(mine, other, factor=1.8)
        return {
            "in the second half the gradient norm swings 1.8 times as far from step to step as a healthy run's": swings,
            "the mean losses of its two halves differ by under 0.4 nats": abs(early - late) < 0.4,
            "the loss ends above a healthy run's": shapes.plateaus_above(run["loss"], healthy["loss"], margin=0.2),
        }

    def cure(self, knobs: Rate, setup: Setup) -> list[Change]:
        return [Setting("data.rows", get(setup, "data.rows") * knobs.micro_batches)]
