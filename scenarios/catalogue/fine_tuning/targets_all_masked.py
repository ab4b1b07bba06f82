"""Every label of most rows is masked: a batch without a scored target logs a loss of 0 and teaches nothing.

Failure: Rows lose all of their labels on the way. The loss of what is left looks right, a step that has nothing left
    logs exactly 0, and nothing alarms. The model learns from a few rows a step, or from none.
Mechanism: The loss is the mean over the n targets that count, and only they have a gradient. With a share s of the
    rows masked the mean is over (1 - s) n targets and its noise grows by 1 / sqrt(1 - s). Without any it is 0 / 0,
    which trainers guard against and log as 0; the gradient is 0, and only momentum and decay still move the weights.
Injection: From the onset on every row of a batch has no scored target with probability `rows`.
Also seen: The loss becomes noisy, and is 0 at the steps that are empty.
Cure: Labels as they should be, twenty steps later.
Realism: In practice a truncation that cuts the answer off, or a chat template whose markers are not found, masks the
    rows. Here they are drawn, and the model has not been trained before.
References: huggingface/trl#6668 (loss 0.0 when every label of a batch is masked).
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.faults import Change, DataTransform, FaultKind
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario, Severity


@dataclass(kw_only=True)
class MaskedRows(Knobs):
    """Probability that a row has no scored target."""

    rows: float


@register
class TargetsAllMasked(Scenario):
    """Rows without a scored target."""

    id = "targets_all_masked"
    family = Family.FINE_TUNING
    plans = 3
    kinds = (FaultKind.DATA,)
    sources = (citations.TRL_6668,)
    telling = "scored_tokens"
    onset = MidRun(0.02, 0.08)
    severities = {
        Severity.SUBTLE: MaskedRows(rows=0.85),
        Severity.CLEAR: MaskedRows(rows=0.95),
        Severity.SEVERE: MaskedRows(rows=1.0),
    }
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return bases.chat(setup)

    def fault(self, knobs: MaskedRows, setup: Setup) -> list[Change]:
        def mask(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            masked = draw.random((len(batch.weights), 1)) < knobs.rows
            return dataclasses.replace(batch, weights=np.where(masked, np.float32(0), batch.weights))

        return [DataTransform(mask, self.id)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        scored = run["scored_tokens"][onset:]
        return {
            "from the onset on the targets that are scored are under a third of a healthy run's": (
                scored.mean() < healthy["scored_tokens"][onset:].mean() / 3
            ),
            "at some steps there are none": scored.min() == 0,
            "and there the loss is 0, as is the gradient": (
                not run["loss"][onset:][scored == 0].any() and not run["grad_norm"][onset:][scored == 0].any()
            ),
            "the held-out loss ends above the twin's": run.final_loss() > healthy.final_loss() + 0.05,
        }
