"""A resume changes the random seed: two runs of one configuration diverge.

Failure: The seed is fixed at the start and not at a resume. Runs of one configuration agree bitwise until
    one of them is resumed; from there on each has its own data order, and no failure can be repeated.
Mechanism: A draw that is a function of (seed, stream, step) can be made again; one that is a function of the
    clock or the process cannot.
Injection: At the onset the run resumes, and its batches come from a seed that is in no configuration. The
    laboratory derives it from the run's own, so that the failure itself can be repeated.
Cure: The seed is restored: batches are again those of the configured seed.
Realism: Stands for unseeded shuffles and RNG states left out of checkpoints. It harms no run; it costs the
    debugging of all others. Simplified: only the order of the data changes.
References: Debugging Training Instability ("high run variance": "RNG, unseeded data shuffles"; "freeze random
    seeds").
"""

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config.bases import chain
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import training_batch
from trainwreck.scenarios.spec.faults import Change, FaultKind, StateEdit, Stream
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario


@register
class UnseededRuns(Scenario):
    """A seed that nobody wrote down."""

    id = "unseeded_runs"
    family = Family.STATE
    kinds = (FaultKind.DATA, FaultKind.STATE)
    sources = (citations.INSTABILITY,)
    telling = "loss"
    cure_after = 30

    def base(self, setup: Setup) -> Setup:
        return chain(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        def redraw(batch: Batch, step: int, start: int, seed: int) -> Batch:
            hidden = int(generator(seed, self.id).integers(2**62))
            return training_batch(setup, hidden, step)

        return [StateEdit(lambda state, earlier: state), Stream(redraw)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(len(run), len(healthy))
        after = run["loss"][onset:n] - healthy["loss"][onset:n]
        return {
            "up to the resume loss and gradient norm are bitwise the twin's": (
                all(np.array_equal(run[name][:onset], healthy[name][:onset]) for name in ("loss", "grad_norm"))
            ),
            "after it the loss differs at every step": bool((after != 0).all()),
            "by nothing on average: the level is the same": abs(after.mean()) < 0.05,
        }
