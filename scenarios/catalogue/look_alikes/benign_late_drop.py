"""A long plateau, then a sudden drop as a circuit forms.

Failure: None. Half of the rows repeat themselves with a fixed period of random tokens. Nothing but
    copying predicts them, and copying is not learnt gradually: the loss is nearly flat for a sixth of
    the run, falls by nearly half within another sixth, and is flat again.
Mechanism: A head that copies needs queries and keys that agree on the distance and values that pass the
    token on. The gradient of each is proportional to the others: d/dt (a b) ~ (a^2 + b^2), slow
    near 0, then all at once.
Injection: From step 0 the last `rows` rows of every batch repeat `period` freshly drawn tokens, from the
    half of the table that the chain does not use.
Realism: Induction heads and other abrupt skills. What stops a run on a plateau stops this one.
References: Reading the Curves (loss plateau early, as the contrast); Olsson et al. 2022, "In-context
    learning and induction heads"; Chen et al. 2024, "Sudden drops in the loss".
"""

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
class Copying(Knobs):
    """Rows of a batch that repeat themselves, and after how many tokens."""

    rows: int = 4
    period: int = 5

    def __post_init__(self) -> None:
        if not self.rows >= 0:
            raise ValueError(f"fault.rows: {self.rows} is not allowed; allowed: 0 or more")
        if not self.period >= 1:
            raise ValueError(f"fault.period: {self.period} is not allowed; allowed: 1 or more")


@register
class BenignLateDrop(Scenario):
    """Rows that only copying predicts."""

    id = "benign_late_drop"
    family = Family.LOOK_ALIKE
    look_alike = True
    imitates = ("lr_too_low", "warmup_too_long")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES,)
    telling = "loss"
    onset = None
    knobs = Copying()

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Copying, setup: Setup) -> list[Change]:
        table, context = setup.model.vocab_size, setup.model.context

        def repeat(batch: Batch, since: int, draw: np.random.Generator) -> Batch:
            sound = max(0, len(batch.inputs) - knobs.rows)
            motif = draw.integers(table // 2, table, (len(batch.inputs) - sound, knobs.period))
            tokens = motif[:, np.arange(context + 1) % knobs.period]
            return Batch(
                inputs=np.concatenate((batch.inputs[:sound], tokens[:, :-1])),
                targets=np.concatenate((batch.targets[:sound], tokens[:, 1:])),
                weights=np.concatenate((batch.weights[:sound], np.ones_like(batch.weights[sound:]))),
                documents=np.concatenate((batch.documents[:sound], np.zeros_like(batch.documents[sound:]))),
            )

        return [DataTransform(repeat, self.id)]
