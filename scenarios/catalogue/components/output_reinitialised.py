"""The output projection is reinitialised in mid-run.

Failure: The head forgets everything while the body keeps all that it knows. The loss is back at what it
    was before the first step, and then falls much faster than it did then.
Mechanism: A small random head gives nearly equal logits, so p = 1 / V for every token and the loss is
    ln V; the features that it needs are there, so relearning it is a convex problem.
Injection: At the onset, the head's weights are drawn from the initial distribution, the biases are 0.
    Moments and step count stay as they are.
Cure: The head and its moments from the step before the onset are put back, two steps after it.
Realism: Stands for heads that are left out of a checkpoint ("newly initialised" in a log nobody read),
    tied weights that were saved once, and resized vocabularies. Simplified: no pause for a resume.
References: Debugging training ("check loss at initialisation"); Debugging Training Instability
    (checkpoints); Reading the Curves (loss jumps).
"""

from typing import TYPE_CHECKING

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.kernels.random import generator
from trainwreck.models.parameters import layout
from trainwreck.scenarios import shapes
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario

if TYPE_CHECKING:
    import torch


@register
class OutputReinitialised(Scenario):
    """A new head on a trained body."""

    id = "output_reinitialised"
    family = Family.COMPONENTS
    kinds = (FaultKind.STATE,)
    sources = (citations.DEBUGGING, citations.INSTABILITY, citations.READING_CURVES)
    telling = "output_max"
    cure_after = 2

    def base(self, setup: Setup) -> Setup:
        return bases.echo(setup)

    def fault(self, knobs: Knobs, setup: Setup) -> list[Change]:
        places = head(setup)
        weights = setup.model.width * setup.model.vocab_size

        def draw(state: State, earlier: State) -> State:
            import torch

            parameters = state["parameters"].clone()
            drawn = setup.model.init.head_std * generator(0, f"fault/{self.id}").standard_normal(weights)
            fresh = np.pad(drawn, (0, setup.model.vocab_size))  # biases of 0
            parameters[places] = torch.from_numpy(fresh).to(parameters.dtype)
            return {**state, "parameters": parameters}

        return [StateEdit(draw, resume=False)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        usual = np.median(healthy["output_max"][-20:])
        return {
            "the largest logit collapses in one step": shapes.drops_in_one_step(
                run["output_max"], onset, ratio=0.5, after=2
            ),
            "and is near the twin's again at the end": 0.7 * usual < np.median(run["output_max"][-20:]) < 1.4 * usual,
            "the loss jumps to that of step 0": abs(run["loss"][onset] - run["loss"][0]) < 0.3,
            "and is back at its level ninety steps later": (
                shapes.spikes_and_recovers(run["loss"], onset, ratio=2.0, within=90)
            ),
        }

    def cure(self, knobs: Knobs, setup: Setup) -> list[Change]:
        places = head(setup)

        def put_back(state: State, earlier: State) -> State:
            changed = dict(state)
            for name in ("parameters", "first", "second"):
                changed[name] = state[name].clone()
                changed[name][places] = earlier[name][places]
            return changed

        return [StateEdit(put_back, since=-self.cure_after - 1, resume=False)]


def head(setup: Setup) -> "torch.Tensor":
    """Where weights and biases of the output projection lie, in this order."""
    import torch

    plan = layout(setup.model)
    return torch.cat([plan.places(f"head.{name}").flatten() for name in ("weight", "bias")])
