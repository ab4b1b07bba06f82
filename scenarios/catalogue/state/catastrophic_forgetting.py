"""Fine-tuning on a second task erases the first.

Failure: A trained model goes on with the data of another task alone. It learns that task and loses the one
    it was trained for; only the old task's validation shows it.
Mechanism: The gradient holds nothing of the old task, and its weights are the new task's to use: shared
    features are turned to the new tokens, and the old tokens' logits are pushed down everywhere.
Injection: From the onset on every batch is of a second language, with tokens and transitions of its own.
    The held-out set stays the first language's.
Cure: Rehearsal: seven rows of eight are of the first language again, and the learning rate is halved.
Realism: Stands for fine-tunes on a narrow domain. Simplified: the tasks share no token, and
    rehearsal has data of the first task without limit.
References: Debugging Training Instability (catastrophic forgetting mid-finetune); McCloskey and Cohen 1989;
    Kirkpatrick et al. 2017.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations, requirements
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, FaultKind, Scaled, Stream, Undo
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@dataclass(kw_only=True)
class Task(Knobs):
    """Which language the fine-tune is in."""

    language_seed: int = 1

    def __post_init__(self) -> None:
        if not self.language_seed >= 0:
            raise ValueError(f"fault.language_seed: {self.language_seed} is not allowed; allowed: 0 or more")


@register
class CatastrophicForgetting(Scenario):
    """A second task in place of the first."""

    id = "catastrophic_forgetting"
    family = Family.STATE
    kinds = (FaultKind.DATA,)
    sources = (citations.INSTABILITY,)
    telling = "validation_loss"
    knobs = Task()
    cure_after = 20

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Task, setup: Setup) -> list[Change]:
        return [Stream(second(knobs, setup))]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        (steps, values), loss = run.evaluations, run["loss"]
        return {
            "the training loss jumps within one step": shapes.jumps_in_one_step(loss, onset, ratio=1.5),
            "and then falls": loss[-20:].mean() < loss[onset : onset + 5].mean() - 0.3,
            "the validation loss ends above its last value before": values[-1] > values[steps <= onset][-1] + 0.3,
        }

    def cure(self, knobs: Task, setup: Setup) -> list[Change]:
        other = second(knobs, setup)

        def rehearse(batch: Batch, step: int, start: int, seed: int) -> Batch:
            new = other(batch, step, start, seed)
            names, kept = ("inputs", "targets", "weights", "documents"), len(batch.inputs) * 7 // 8
            return Batch(*(np.concatenate((getattr(batch, k)[:kept], getattr(new, k)[kept:])) for k in names))

        return [Undo(), Stream(rehearse), Scaled("optimizer.lr", 0.5)]


def second(knobs: Task, setup: Setup) -> Callable[[Batch, int, int, int], Batch]:
    """The stream of the second task."""
    task = replaced(setup, data__language_seed=knobs.language_seed)
    first = requirements.language(task).spec.content  # ids from here on are not in the chain dialect

    def edit(batch: Batch, step: int, start: int, seed: int) -> Batch:
        new = training_batch(task, seed, step)
        return dataclasses.replace(new, inputs=new.inputs + first, targets=new.targets + first)

    return edit
