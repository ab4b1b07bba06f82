"""BatchNorm stands where LayerNorm belongs.

Failure: Training looks as good as with the right norm, or better. The validation loss, for which the norm goes
    by its running statistics, stands well above it for the whole run.
Mechanism: In training y = (x - mean_B) / std_B over the tokens of the batch, in evaluation y = (x - m) / s with
    m <- 0.9 m + 0.1 mean_B, and s^2 likewise. The tokens of one row are alike, so those of a small batch are a
    handful of draws: its mean is far from m. The weights have learnt with the one and are used with the other,
    and what a batch's mean says about its own tokens is gone.
Injection: From step 0 every norm is a BatchNorm with gain, shift and running statistics.
Cure: LayerNorm, thirty steps later, with the gains and shifts that there are.
Realism: Stands for blocks taken over from vision models. It goes with the size of the batch: here a batch is one
    row of sixteen tokens, as a micro-batch of one under gradient accumulation is; with two rows of 32 tokens
    the validation loss is off by 0.02 to 0.03 nats, and with eight by nothing (one or two seeds each). In a
    causal model the statistics also tell a token of those that come after it, in training alone.
References: Debugging Training Instability ("LayerNorm vs BatchNorm issues"); Debugging training (BatchNorm and
    its running statistics); Ioffe and Szegedy 2015; Shen et al. 2020 (PowerNorm); Wang et al. 2022 (the
    discrepancy between training and inference).
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.config import Norm
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Variant
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class BatchnormInTransformer(Scenario):
    """Norms over the tokens of the batch."""

    id = "batchnorm_in_transformer"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.VARIANT,)
    sources = (citations.INSTABILITY, citations.DEBUGGING)
    telling = "validation_loss"
    onset = None
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return bases.chain_one_row(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        return [Variant("model.norm", Norm.BATCH)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        late = slice(n // 2, n)
        seen = (run.evaluated[:n] & healthy.evaluated[:n])[late]
        train = run["loss"][late].mean() - healthy["loss"][late].mean()
        held_out = run["validation_loss"][late][seen] - healthy["validation_loss"][late][seen]
        return {
            "the mean training loss of the second half is at most a tenth of a nat above the twin's": train < 0.1,
            "in it, the validation loss is over a tenth of a nat above the twin's at every evaluation": (
                held_out.min(initial=np.inf) > 0.1
            ),
            "and by more than 0.15 nats on average": held_out.sum() > 0.15 * len(held_out),
        }
