"""The data loader starts from its first batch at every resume.

Failure: A job that is preempted now and then resumes its weights and not its place in the data. Each time it
    sees the same first batches again, and memorises them.
Mechanism: Steps k and k + T train on the same rows. What a second pass gains on them is partly memory of the
    rows: the training loss falls under the loss on rows never seen.
Injection: From the onset on the run is resumed every `every` steps, and the data begin again at the first batch.
Cure: The loader's position is restored: from the cure on, each step has its own batch again.
Realism: Stands for iterable datasets without a state. Simplified: equal stretches between preemptions;
    they are short, since a small model has few parameters to remember with.
References: Debugging Divergent Loss During Training (leakage and data shuffles; dataset versions); Reading
    the Curves (training loss inches down while validation does not).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import RESUME_STEPS, Change, Clock, FaultKind, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, MidRun, Scenario


@dataclass(kw_only=True)
class Resumes(Knobs):
    """Steps from one resume to the next."""

    every: int = 10

    def __post_init__(self) -> None:
        if not self.every >= 1:
            raise ValueError(f"fault.every: {self.every} is not allowed; allowed: 1 or more")


@register
class DataReplayed(Scenario):
    """The same first batches again and again."""

    id = "data_replayed"
    family = Family.STATE
    kinds = (FaultKind.DATA,)
    sources = (citations.DIVERGENT_LOSS, citations.READING_CURVES)
    telling = "validation_loss"
    onset = MidRun(0.25, 0.4)
    knobs = Resumes()
    cure_after = 40

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Resumes, setup: Setup) -> list[Change]:
        def replay(batch: Batch, step: int, start: int, seed: int) -> Batch:
            first = (step - start) % knobs.every
            return training_batch(setup, seed, first)

        def pause(seconds: float, since: int) -> float:
            return seconds if since % knobs.every else max(seconds, 1.0 + RESUME_STEPS)

        return [Stream(replay), Clock(pause)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        last, seconds = slice(-60, None), run["step_seconds"][onset:]
        slow = np.diff(np.flatnonzero(seconds > 1.5 * np.median(seconds)))
        return {
            "the training loss ends under the twin's": run["loss"][last].mean() - healthy["loss"][last].mean() < -0.03,
            "the validation loss ends above the twin's": run.final_loss() - healthy.final_loss() > 0.02,
            "the clock shows the resumes: slow steps at even distances": len(slow) > 2
            and bool((slow == slow[0]).all()),
        }
