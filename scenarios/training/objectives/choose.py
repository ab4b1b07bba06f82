"""The module of an objective, by what a program says.

Each has `losses`, of which a training step takes the gradient, and `evaluate`, of the signals that are known at
evaluated steps alone. An objective that has other batches makes them in `scenarios.data`; what it keeps between steps
is part of a run's state, as a bundle's moving average is.
"""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from torch import Tensor

from trainwreck.models.probe import Probe
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.objectives.losses import Losses


class Objective(Protocol):
    """What the training loop asks of an objective."""

    def losses(self, bundle: Bundle, block: Inputs, index: int, step: int, probe: Probe | None) -> Losses:
        """The forward pass of a training step on the inputs at `index` of a block."""
        ...

    def evaluate(self, bundle: Bundle, step: int) -> dict[str, Tensor]:
        """`schema.EVALUATIONS` that such runs have, each [N]. `validation_loss` is the one that runs are judged by."""
        ...


@cache
def objective(kind: ObjectiveKind) -> Objective:
    """The module of an objective; no other is loaded."""
    return cast(Objective, import_module(f"trainwreck.scenarios.training.objectives.{kind.value}"))
