"""A hand-written loss takes the log of a probability that is zero.

Failure: The loss is -log(softmax(logits)), in float16. It is right for every token of some probability;
    where a token comes that the model rules out, the probability is 0, the loss infinite and the gradient NaN.
Mechanism: softmax rounds p < 3e-8 to 0 in float16, log 0 = -inf, and back goes -1 / 0 * 0 = NaN. In the form
    log sum exp(z) - z_y the same token costs its 17 nats and more, and its gradient is p - 1.
Injection: From the onset on the loss is computed in two steps (`log_of_softmax`), and one batch in three has a
    row with some tokens that never came before.
Cure: Log-sum-exp in float32; the rare tokens stay.
Realism: Stands for custom losses, `log(softmax(x))` and mixed precision that does not know of them. Adam with a
    short memory and without decay pushes never-seen tokens down for as long as it runs. Simplified: with a
    loss scaler, which skips what it takes for an overflow; without one the first such batch is the end.
References: Recognizing the symptoms of training instability ("log(0)"); Debugging Training Instability ("log/softmax
    misuse"; NaNs from log(0), clamp logits).
"""

import dataclasses

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain_fp16
from trainwreck.scenarios.config.settings import LossForm, Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@register
class LogOfZero(Scenario):
    """-log(softmax(z)) where softmax is 0."""

    id = "log_of_zero"
    family = Family.NUMERICS
    kinds = (FaultKind.VARIANT, FaultKind.DATA)
    sources = (citations.SYMPTOMS, citations.INSTABILITY)
    telling = "loss"
    onset = MidRun(0.75, 0.85)
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return replaced(
            chain_fp16(setup),
            optimizer__beta2=0.9,
            optimizer__eps=1e-12,
            optimizer__weight_decay=0.0,
            steps=400,
        )

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        size = setup.model.vocab_size

        def rare(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            row = (np.arange(len(batch.inputs)) == 0) & (draw.random() < 1 / 3)
            hit = row[:, None] & (draw.random(batch.inputs.shape) < 0.2)
            inputs = np.where(hit, draw.integers(size // 2, size, batch.inputs.shape), batch.inputs)
            targets = np.concatenate((inputs[:, 1:], batch.targets[:, -1:]), 1)
            return dataclasses.replace(batch, inputs=inputs, targets=targets)

        return [Variant("loss", LossForm.LOG_OF_SOFTMAX), DataTransform(rare, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        loss, skipped = run["loss"][onset:], run["skipped"][onset:]
        bad = ~np.isfinite(loss)
        between = np.abs(loss - healthy["loss"][onset : onset + len(loss)])[~bad]
        more = (run["unique_share"] > healthy["unique_share"][: len(run)])[onset:]
        return {
            "from the onset on the loss of some batches is infinite or NaN": 2 <= bad.sum() < 0.6 * len(bad),
            "nine in ten of these have more distinct tokens than a healthy run's": more[bad].sum() > 0.9 * bad.sum(),
            "their steps are skipped": (skipped[bad] == 1).all(),
            "on most of the others the loss is near a healthy run's": len(between) > 0 and np.median(between) < 0.2,
            "weights stay finite": not run["nonfinite_weights"].any(),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("loss", LossForm.LOG_SUM_EXP)]
