"""A few batches are read again and again: the loss goes down by a step an epoch, and leaps at the first new batch.

Failure: None. For a fifth of the run the same batches come in seven epochs. The training loss steps down at each of
    them, to well under half; at the first new batch it is back above where it was, at three times the least loss so
    far. The gradient norm rises with it. The validation loss goes up meanwhile, and comes back after that.
Mechanism: What a row says of its rare words comes once an epoch and can only be memorised. A token after such a word
    costs its entropy on first sight and less with each epoch. New rows pair the words with other tokens, so that what
    was memorised is wrong of them, and is unlearnt within some tens of steps.
Injection: From the onset on the next `steps` batches come `epochs` times, the first time as in the twin, then with rows
    in a new order each time; after that there are new batches again, the twin's own.
Realism: Fine-tuning over several epochs has such stairs, and people ask whether they are a bug. What is general is
    learnt from all rows, so that an end with new rows is nearly as good as if none had come twice.
References: Howard and Whitaker 2023, "Can LLMs learn from a single example?" (fast.ai; stairs of the training loss at
    each epoch); lm-sys/FastChat#2025 (stairs, "it is normal"); allenai/open-instruct#128 (large drops at the start of
    an epoch that do not hurt); Reading the Curves (overfitting, as the contrast).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch, taken
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Stairs(Knobs):
    """Steps of an epoch, and how many epochs there are."""

    steps: int = 8
    epochs: int = 7

    def __post_init__(self) -> None:
        for name, value in (("steps", self.steps), ("epochs", self.epochs)):
            if not value >= 1:
                raise ValueError(f"fault.{name}: {value} is not allowed; allowed: 1 or more")


@register
class BenignEpochStaircase(Scenario):
    """A few batches in several epochs, then new ones."""

    id = "benign_epoch_staircase"
    family = Family.LOOK_ALIKE
    plans = 3
    look_alike = True
    imitates = ("overfit_small_set", "distribution_shift")
    kinds = (FaultKind.DATA,)
    sources = (citations.READING_CURVES, citations.SINGLE_EXAMPLE, citations.FASTCHAT_2025)
    telling = "loss"
    onset = MidRun(0.3, 0.4)
    knobs = Stairs()
    tolerance = 0.08  # 16 healthy runs of this base end 0.084 nats apart

    def base(self, setup: Setup) -> Setup:
        return bases.chain_rare_words(setup)

    def fault(self, knobs: Stairs, setup: Setup) -> list[Change]:
        def again(batch: Batch, step: int, start: int, seed: int) -> Batch:
            epoch, place = divmod(step - start, knobs.steps)
            if not 0 < epoch < knobs.epochs:
                return batch
            count = len(batch.inputs)
            order = generator(seed, "fault/epochs", start + epoch).permutation(knobs.steps * count)
            read = [training_batch(setup, seed, start + i) for i in range(knobs.steps)]
            fields = ("inputs", "targets", "weights", "documents")
            rows = Batch(*(np.concatenate([getattr(part, name) for part in read]) for name in fields))
            return taken(rows, order[place * count : (place + 1) * count])

        return [Stream(again)]
