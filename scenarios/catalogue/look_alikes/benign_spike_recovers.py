"""A spike over several steps, at two to five times the loss, that comes back by itself.

Failure: None. For a handful of steps in mid-run the loss is at three to five times what it was, the gradient norm with
    it; some ten steps later both are back, and the run ends where it would have ended.
Mechanism: A stretch of the data that the model knows nothing of costs what a guess costs, and pulls the weights towards
    it for as long as it lasts. Clipping bounds each pull, and the usual data undoes them.
Injection: From the onset on, for `steps` steps, a `share` of the rows of each batch is of tokens drawn evenly.
Realism: The usual spike of published logs lasts several rows and recovers. There its cause is mostly unknown, and
    skipping the batches is the customary answer (PaLM); here it is a foreign stretch of the stream.
References: Reading the Curves (spikes); Recognizing the symptoms; Chowdhery et al. 2022, "PaLM" (training instability);
    Molybog et al. 2023, "A theory on Adam instability in large-scale machine learning".
"""

import dataclasses
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
class Stretch(Knobs):
    """Steps that the foreign stretch lasts, and its share of the rows of their batches."""

    steps: int = 6
    share: float = 0.75

    def __post_init__(self) -> None:
        if not self.steps >= 1:
            raise ValueError(f"fault.steps: {self.steps} is not allowed; allowed: 1 or more")
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"fault.share: {self.share} is not allowed; allowed: 0 to 1")


@register
class BenignSpikeRecovers(Scenario):
    """A stretch of foreign data, over soon."""

    id = "benign_spike_recovers"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("corrupt_tokens", "bad_batch_foreign", "high_lr")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES, citations.SYMPTOMS)
    telling = "loss"
    knobs = Stretch()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Stretch, setup: Setup) -> list[Change]:
        table = setup.model.vocab_size

        def foreign(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            if since >= knobs.steps:
                return batch
            rows, context = batch.inputs.shape
            count = round(knobs.share * rows)
            tokens = draw.integers(0, table, (count, context + 1))
            return dataclasses.replace(
                batch,
                inputs=np.concatenate((tokens[:, :-1], batch.inputs[count:])),
                targets=np.concatenate((tokens[:, 1:], batch.targets[count:])),
            )

        return [DataTransform(foreign, self.id)]
