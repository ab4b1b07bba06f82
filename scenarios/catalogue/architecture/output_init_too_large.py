"""The output projection starts far too large.

Failure: The head's weights are drawn at the wrong scale. A fresh model should know nothing and lose
    log V; this one is sure of random tokens and loses many times that.
Mechanism: With a normed input of length sqrt(d) and weights of standard deviation s, logits have
    standard deviation s * sqrt(d), and a target costs about what the largest of V of them is over it,
    2.4 standard deviations for V = 64. The gradient at the head's input, W'(p - y), grows in proportion
    to s, and so do the gradients of everything before it.
Injection: The head's initial standard deviation is `std`.
Cure: After five steps the head scaled to the right initial size, optimizer state reset.
Realism: Stands for a missing 1/sqrt(d), or fan-in and fan-out exchanged in a wide layer. Adam takes
    steps of one size whatever the gradient's, so what is too large shrinks slowly: at a learning rate
    of 3e-3 the run loses a quarter of its steps to it and pays for it at the end.
References: Debugging training ("check loss at initialisation": log K for K classes);
    Reading the Curves ("or the output projection was initialized at the wrong scale").
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.models.parameters import layout
from trainwreck.scenarios.catalogue import citations
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.faults import Change, FaultKind, Setting, State, StateEdit
from trainwreck.scenarios.spec.registry import register
from trainwreck.scenarios.spec.scenario import Clauses, Family, Knobs, Scenario, Severity


@dataclass(kw_only=True)
class Spread(Knobs):
    """Standard deviation of the head's weights at the start."""

    std: float = 12.0


@register
class OutputInitTooLarge(Scenario):
    """The head drawn at the wrong scale."""

    id = "output_init_too_large"
    family = Family.ARCHITECTURE
    kinds = (FaultKind.SETTING,)
    sources = (citations.READING_CURVES, citations.DEBUGGING)
    telling = "loss"
    onset = None
    severities = {
        Severity.SUBTLE: Spread(std=7.0),
        Severity.CLEAR: Spread(std=12.0),
        Severity.SEVERE: Spread(std=20.0),
    }
    cure_after = 5

    def base(self, setup: Setup) -> Setup:
        return bases.chain_third_lr(setup)

    def fault(self, knobs: Spread, setup: Setup) -> list[Change]:
        return [Setting("model.init.head_std", knobs.std)]

    def signature(self, run: Trace, healthy: Trace, onset: int) -> Clauses:
        n = min(5, len(run), len(healthy))
        ratio = np.median(run["layer_grad_norm"][:n] / healthy["layer_grad_norm"][:n], 0)
        return {
            "the loss at step 0 is over three times the twin's": run["loss"][0] > 3 * healthy["loss"][0],
            "in the first five steps the gradient norms of head, layers and embedding are over five times the twin's": (
                ratio.min() > 5
            ),
        }

    def cure(self, knobs: Spread, setup: Setup) -> list[Change]:
        head = layout(setup.model).slot("head.weight")

        def rescale(state: State, earlier: State) -> State:
            import torch

            parameters = state["parameters"].clone()
            parameters[head.start : head.stop] *= setup.model.init.head_std / knobs.std
            zero = {name: torch.zeros_like(state[name]) for name in ("first", "second", "count")}
            return {**state, **zero, "parameters": parameters}

        return [StateEdit(rescale, resume=False)]
