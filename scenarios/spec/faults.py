"""The seven kinds of change that a fault or a cure can be made of, behind one interface.

The training loop asks every change the same questions and knows no scenario. A change is in force from its
step on, to the end of the run or until another step (`At`). A later one acts on what an earlier one left.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.models.parameters import Layout, layout
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.scenarios.config.schedule import learning_rate
from trainwreck.scenarios.config.settings import Setup, get, replace
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.exchange import Exchange

if TYPE_CHECKING:
    import torch

    from trainwreck.models.tables import Tables


class FaultKind(Enum):
    """What a change touches."""

    SETTING = "setting"  # a configured value
    VARIANT = "variant"  # another module or kernel in place of the good one
    TENSOR = "tensor"  # mask, rotary table, attention scale, learning-rate curve
    DATA = "data transform"  # batch to batch
    STATE = "state edit"  # checkpoint to checkpoint, at a resume
    PROCESS = "process"  # the ranks' rows and what the ranks send each other
    LOG = "log"  # what is written of a step, and nothing of the training


# Parameters, moments and counters of one run by name; what a checkpoint holds.
State = dict[str, "torch.Tensor"]
# What is logged of one step, by signal: a number, or as many as the signal has. Losses on held-out rows are not in it.
Row = dict[str, Any]


class Change:
    """A change that changes nothing; each kind overrides what it touches."""

    kind: ClassVar[FaultKind]
    resume: bool = False  # whether training goes on from a checkpoint at its step

    def setup(self, setup: Setup) -> Setup:
        """The configuration from here on."""
        return setup

    def tables(self, tables: "Tables", setup: Setup) -> "Tables":
        """Mask, rotary tables and attention scale of one run (leading axis 1) from here on."""
        return tables

    def parametrization(self, parametrization: Parametrization, setup: Setup) -> Parametrization:
        """How the weights that compute are made of the trained ones (leading axis 1) from here on."""
        return parametrization

    def updates(self, updates: Updates, setup: Setup) -> Updates:
        """What stands between gradients and weights of one run (leading axis 1) from here on."""
        return updates

    def seconds(self, seconds: float, step: int, start: int) -> float:
        """What a step takes on the modelled clock."""
        return seconds

    def learning_rate(self, rate: float, step: int, start: int, setup: Setup) -> float:
        """The learning rate of a step; `start` is the first step under this change."""
        return rate

    def batch(self, batch: Batch, step: int, start: int, seed: int) -> Batch:
        """The batch of a step, arrays [B, T]. Must not write into the arrays it is given."""
        return batch

    def data_step(self, step: int) -> int:
        """The step of the stream of batches whose batch a step takes."""
        return step

    def exchange(self, exchange: Exchange) -> Exchange:
        """The ranks' rows and what the ranks send each other, from here on."""
        return exchange

    def state(self, state: State, earlier: dict[int, State], step: int) -> State:
        """The state that training goes on with after the resume at `step`."""
        return state

    def logged(self, row: Row, before: list[Row], step: int, start: int) -> Row:
        """What is logged of a step; before: the rows logged so far, of the steps up to it. Must not write into them."""
        return row

    def needs(self, step: int) -> tuple[int, ...]:
        """Steps before `step` whose state `state` wants to see."""
        return ()

    def anchored(self, step: int) -> "Change":
        """The same change for another step than `step`, where it looks back at what it does from there."""
        return self


@dataclass(frozen=True)
class Undo(Change):
    """In a cure: from here on the changes of the scenario's own fault are no longer in force.

    Changes of other scenarios in the same run stay. A `StateEdit` is over once it is made, so it is not undone.
    """


@dataclass(frozen=True)
class Setting(Change):
    """A configured value, by dotted path."""

    path: str
    value: Any
    kind: ClassVar[FaultKind] = FaultKind.SETTING

    def setup(self, setup: Setup) -> Setup:
        return replace(setup, self.path, self.value)


@dataclass(frozen=True)
class Scaled(Change):
    """A configured number times a factor."""

    path: str
    factor: float
    kind: ClassVar[FaultKind] = FaultKind.SETTING

    def setup(self, setup: Setup) -> Setup:
        return replace(setup, self.path, get(setup, self.path) * self.factor)


@dataclass(frozen=True)
class Variant(Setting):
    """A structural setting: another module or kernel takes the good one's place."""

    kind: ClassVar[FaultKind] = FaultKind.VARIANT


@dataclass(frozen=True)
class TableEdit(Change):
    """Another mask, rotary table or attention scale: edit(tables of one run, setup)."""

    edit: "Callable[[Tables, Setup], Tables]"
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    def tables(self, tables: "Tables", setup: Setup) -> "Tables":
        return self.edit(tables, setup)


@dataclass(frozen=True)
class ParametrizationEdit(Change):
    """Weights that compute other than the trained ones: edit(parametrization of one run, layout)."""

    edit: Callable[[Parametrization, Layout], Parametrization]
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    def parametrization(self, parametrization: Parametrization, setup: Setup) -> Parametrization:
        return self.edit(parametrization, layout(setup.model))


@dataclass(frozen=True)
class UpdateEdit(Change):
    """Gradients that are lost, scaled or kept, weights that do not move: edit(updates of one run, layout)."""

    edit: Callable[[Updates, Layout], Updates]
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    def updates(self, updates: Updates, setup: Setup) -> Updates:
        return self.edit(updates, layout(setup.model))


@dataclass(frozen=True)
class Clock(Change):
    """Steps that take longer or shorter: edit(seconds of the work, steps since the start)."""

    edit: Callable[[float, int], float]
    kind: ClassVar[FaultKind] = FaultKind.DATA

    def seconds(self, seconds: float, step: int, start: int) -> float:
        return self.edit(seconds, step - start)


@dataclass(frozen=True)
class Curve(Change):
    """Another learning-rate curve: edit(rate, steps since the start, setup)."""

    edit: Callable[[float, int, Setup], float]
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    def learning_rate(self, rate: float, step: int, start: int, setup: Setup) -> float:
        return self.edit(rate, step - start, setup)


@dataclass(frozen=True)
class SchedulePosition(Change):
    """The learning rate that the schedule has at another step: position(step, first step under the change)."""

    position: Callable[[int, int], int]
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    def learning_rate(self, rate: float, step: int, start: int, setup: Setup) -> float:
        return learning_rate(setup, self.position(step, start))


@dataclass(frozen=True)
class DataTransform(Change):
    """Batches changed on their way: transform(batch, steps since the start, draws of the step)."""

    transform: Callable[[Batch, int, np.random.Generator], Batch]
    stream: str
    kind: ClassVar[FaultKind] = FaultKind.DATA

    def batch(self, batch: Batch, step: int, start: int, seed: int) -> Batch:
        return self.transform(batch, step - start, generator(seed, f"fault/{self.stream}", step))


@dataclass(frozen=True)
class Process(Change):
    """Ranks that get other rows or send each other something else: edit(what is right, or was until here)."""

    edit: Callable[[Exchange], Exchange]
    kind: ClassVar[FaultKind] = FaultKind.PROCESS

    def exchange(self, exchange: Exchange) -> Exchange:
        return self.edit(exchange)


@dataclass(frozen=True)
class Stream(Change):
    """Another stream of batches: edit(batch, step, first step under the change, seed)."""

    edit: Callable[[Batch, int, int, int], Batch]
    kind: ClassVar[FaultKind] = FaultKind.DATA

    def batch(self, batch: Batch, step: int, start: int, seed: int) -> Batch:
        return self.edit(batch, step, start, seed)


@dataclass(frozen=True)
class SkipBatches(Change):
    """Batches that are left out, as a restart further on in the data leaves them out: PaLM, section 5.1.

    Faults of the data are in the stream, so that one is met where it lies, however the steps are counted.
    """

    count: int
    kind: ClassVar[FaultKind] = FaultKind.DATA

    def data_step(self, step: int) -> int:
        return step + self.count


@dataclass(frozen=True)
class LogEdit(Change):
    """A log that is wrong while training is right: edit(row of the step, rows logged so far, steps since the start)."""

    edit: Callable[[Row, list[Row], int], Row]
    kind: ClassVar[FaultKind] = FaultKind.LOG

    def logged(self, row: Row, before: list[Row], step: int, start: int) -> Row:
        return self.edit(row, before, step - start)


RESUME_STEPS = 4.0  # what a resume from a checkpoint takes on the modelled clock, in steps


@dataclass(frozen=True)
class StateEdit(Change):
    """A resume from a checkpoint that is not what was saved: edit(state, state of `since`).

    `since` counts steps before the resume if negative, from the start of the run otherwise.
    resume: False for state that changes in memory, without the pause of a resume.
    """

    edit: Callable[[State, State], State]
    since: int = 0
    resume: bool = True
    kind: ClassVar[FaultKind] = FaultKind.STATE

    def seconds(self, seconds: float, step: int, start: int) -> float:
        return max(seconds, 1.0 + RESUME_STEPS) if self.resume and step == start else seconds

    def state(self, state: State, earlier: dict[int, State], step: int) -> State:
        return self.edit(state, earlier[self._step(step)])

    def needs(self, step: int) -> tuple[int, ...]:
        return (self._step(step),)

    def anchored(self, step: int) -> "Change":
        return dataclasses.replace(self, since=self._step(step))

    def _step(self, step: int) -> int:
        return max(0, step + self.since) if self.since < 0 else self.since


@dataclass(frozen=True)
class At:
    """A change, the first step under it, and the first step no longer under it; None for the end of the run.

    ValueError for a step before the first.
    """

    step: int
    change: Change
    until: int | None = None

    def __post_init__(self) -> None:
        if self.step < 0:
            raise ValueError(f"step: {self.step} is not allowed; allowed: 0 or more")
