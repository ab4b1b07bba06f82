"""What a policy may do to a run under way. Each action is a change of the run, as a fault or a cure is.

Whether an action helps is found by training on; nothing here knows what is wrong with a run. An action that puts
something right (`restore`) sets it as the declared configuration has it, whether or not it was wrong.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeGuard

import torch

from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.detectors.registry import is_builtin
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.models.config import Format
from trainwreck.models.parametrization import Parametrization, Updates
from trainwreck.models.tables import Tables
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.spec.exchange import Exchange
from trainwreck.scenarios.spec.faults import (
    Change,
    Curve,
    FaultKind,
    Setting,
    SkipBatches,
    State,
    StateEdit,
    Variant,
)
from trainwreck.scenarios.spec.job import Job, Segment


class Kind(Enum):
    """What is done; the value that it takes is in brackets."""

    CONTINUE = "continue"
    STOP = "stop"  # end the run here
    RATE = "rate"  # learning rate times [factor] from here on
    REWARM = "rewarm"  # learning rate from 0 to what it would be, over [steps]
    CLIP = "clip"  # largest gradient norm let through [norm]
    SKIP = "skip"  # leave out the next [batches]
    ROLL_BACK = "roll_back"  # to the checkpoint at least [steps] ago, with the same batches again
    ROLL_BACK_AND_SKIP = "roll_back_and_skip"  # to it, with as many other batches as [steps] trained since, twice
    RESET_OPTIMIZER = "reset_optimizer"  # moments and their count to 0
    PRECISION = "precision"  # number format of matrix products [format]
    LOSS_SCALE = "loss_scale"  # [dynamic], or a number
    QK_NORM = "qk_norm"  # queries and keys are normalised from here on
    Z_LOSS = "z_loss"  # weight of log(Z)^2 in the objective [weight]
    RESTORE = "restore"  # a [part] as it is declared
    ASK_SIGNAL = "ask_signal"  # log a [signal] from here on that the profile does not show
    ASK_DETECTOR = "ask_detector"  # what a built-in [detector] says of the rows so far


class Part(Enum):
    """What `restore` puts right: code that is repaired, or settings that are set as they were declared."""

    MASK = "mask"  # which keys a query may see
    POSITIONS = "positions"  # rotary tables, learned positions
    DATA = "data"  # batches as the source has them
    MODEL = "model"  # modules, attention scale, gains, and how the weights that compute are made of the trained ones
    UPDATES = "updates"  # gradients that arrive, weights that move, what ranks send each other
    SETTINGS = "settings"  # optimizer, schedule, precision, loss


# What an action costs, in runs: 0.1 is a tenth of what the training of the whole run costs. Steps that are trained
# again cost what they are, a step over the planned steps.
PRICES: dict[Kind | Part, float] = {
    Kind.ASK_SIGNAL: 0.01,
    Kind.PRECISION: 0.02,
    Kind.QK_NORM: 0.02,
    Kind.Z_LOSS: 0.02,
    Kind.RESTORE: 0.1,
    Part.SETTINGS: 0.02,  # restored; no code is repaired
}
HIGHEST = 100.0  # price
RANGES = {
    Kind.RATE: (0.1, 3.0),
    Kind.REWARM: (1.0, 1e5),
    Kind.CLIP: (1e-3, 1e3),
    Kind.SKIP: (1.0, 1e5),
    Kind.ROLL_BACK: (1.0, 1e7),
    Kind.ROLL_BACK_AND_SKIP: (1.0, 1e7),
    Kind.Z_LOSS: (1e-6, 1e-1),
}
WHOLE = (Kind.REWARM, Kind.SKIP, Kind.ROLL_BACK, Kind.ROLL_BACK_AND_SKIP)
DYNAMIC = "dynamic"
SCALES = (1.0, 2.0**24)  # of a loss scale that is a number


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value) == float(value)


@dataclass(frozen=True)
class Action:
    """Something done to a run before its next block. value: as `Kind` says; None where it takes none.

    Raises InputError for a value that is not allowed.
    """

    kind: Kind
    value: float | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Kind):
            raise unknown("action", self.kind, [kind.value for kind in Kind])
        if self.kind in RANGES:
            self._check_number()
        elif self.kind in _NAMES:
            self._check_name()
        elif self.kind is Kind.LOSS_SCALE:
            if self.value != DYNAMIC and not (_is_number(self.value) and SCALES[0] <= self.value <= SCALES[1]):
                raise self._refused(f"{DYNAMIC}, or {SCALES[0]:g} to {SCALES[1]:g}")
        elif self.value is not None:
            raise self._refused("none")

    @classmethod
    def parse(cls, text: str) -> "Action":
        """An action as it is written: `continue`, `rate=0.3`, `restore=mask`. Raises InputError for what is none."""
        name, equals, value = text.partition("=")
        if name not in {kind.value for kind in Kind}:
            raise unknown("action", name, [kind.value for kind in Kind])
        kind = Kind(name)
        if not equals:
            return cls(kind)
        if kind in RANGES or (kind is Kind.LOSS_SCALE and value != DYNAMIC):
            try:
                number = float(value)
            except ValueError:
                raise InputError(f"action: {text[:80]!r} is not allowed; allowed: {name}=NUMBER") from None
            return cls(kind, number)
        return cls(kind, value)

    def __str__(self) -> str:
        value = f"{self.value:g}" if isinstance(self.value, float) else self.value
        return self.kind.value if self.value is None else f"{self.kind.value}={value}"

    @property
    def price(self) -> float:
        """What it costs, in runs, beside steps trained again."""
        return price_of(self.kind.value, None if self.value is None else str(self.value), PRICES)

    @property
    def asks(self) -> bool:
        """Whether it looks without training on."""
        return self.kind in (Kind.ASK_SIGNAL, Kind.ASK_DETECTOR)

    @property
    def acts(self) -> bool:
        """Whether it does something to the run."""
        return not self.asks and self.kind is not Kind.CONTINUE

    def _check_number(self) -> None:
        low, high = RANGES[self.kind]
        whole = self.kind in WHOLE
        what = "whole numbers from " if whole else ""
        if not _is_number(self.value) or not low <= self.value <= high or (whole and self.value % 1):
            raise self._refused(f"{what}{low:g} to {high:g}")

    def _check_name(self) -> None:
        allowed = _NAMES[self.kind]
        if callable(allowed):
            if not (isinstance(self.value, str) and allowed(self.value)):
                raise self._refused("a built-in detector that can run here")
        elif self.value not in allowed:
            raise unknown(f"action {self.kind.value}", self.value, allowed)

    def _refused(self, allowed: str) -> InputError:
        value = f"{self.value:g}" if isinstance(self.value, (int, float)) else repr(str(self.value)[:60])
        return InputError(f"action {self.kind.value}: {value} is not allowed; allowed: {allowed}")


def price_of(name: str, value: str | None, prices: Mapping[Kind | Part, float]) -> float:
    """What an action costs, in runs, of its name and its value as they are written. 0 for one without a price."""
    usual = prices.get(Kind(name), 0.0)
    return prices.get(Part(value), usual) if name == Kind.RESTORE.value else usual


def with_prices(texts: Iterable[str]) -> dict[Kind | Part, float]:
    """`PRICES` with others in their place: "restore=0.05", "restore=settings=0.01", "rate=0.02", in runs.

    Raises InputError.
    """
    found = dict(PRICES)
    for text in texts:
        name, _, number = text.rpartition("=")
        head, _, part = name.partition("=")
        if head not in {kind.value for kind in Kind}:
            raise unknown("price", head, [kind.value for kind in Kind])
        if part and (head != Kind.RESTORE.value or part not in {one.value for one in Part}):
            raise unknown("price", name, [f"{Kind.RESTORE.value}={one.value}" for one in Part])
        try:
            price = float(number)
        except ValueError:
            price = -1.0
        if not 0.0 <= price <= HIGHEST:
            raise InputError(f"price {name}: {number[:20]!r} is not allowed; allowed: 0 to {HIGHEST:g}, in runs")
        found[Part(part) if part else Kind(head)] = price
    return found


_NAMES: dict[Kind, tuple[str, ...] | Callable[[str], bool]] = {
    Kind.PRECISION: tuple(format.value for format in Format if format is not Format.FP8),
    Kind.RESTORE: tuple(part.value for part in Part),
    Kind.ASK_SIGNAL: tuple(signal.name for signal in SIGNALS),
    Kind.ASK_DETECTOR: is_builtin,
}
# The actions of the environment, by number: what people do, at values that they use.
TABLE = tuple(
    Action.parse(text)
    for text in (
        "continue", "stop", "rate=0.1", "rate=0.3", "rate=0.5", "rate=2", "rate=3", "rewarm=30", "clip=0.3", "clip=1",
        "skip=50", "skip=100", "roll_back=20", "roll_back=50", "roll_back=100", "roll_back_and_skip=50",
        "roll_back_and_skip=100", "reset_optimizer", "precision=fp32", "precision=bf16", "loss_scale=dynamic",
        "qk_norm", "z_loss=0.001", "restore=mask", "restore=positions", "restore=data", "restore=model",
        "restore=updates", "restore=settings", "ask_detector=playbook",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Restore(Change):
    """A part of the run as it is declared from a step on. declared: the run without a fault, and without actions."""

    part: Part
    declared: Job
    step: int
    kind: ClassVar[FaultKind] = FaultKind.TENSOR

    @property
    def right(self) -> Segment:
        """How the declared run is made from the step on."""
        return self.declared.segment(self.step)

    @property
    def earliest(self) -> int:
        """The first step at which the declared run is made so."""
        return self.right.start

    def setup(self, setup: Setup) -> Setup:
        right, model = self.right.setup, setup.model
        if self.part is Part.DATA:
            return dataclasses.replace(setup, data=right.data)
        if self.part is Part.POSITIONS:
            model = dataclasses.replace(model, positions=right.model.positions, rope_base=right.model.rope_base)
            return dataclasses.replace(setup, model=model)
        if self.part is Part.MODEL:
            model = dataclasses.replace(right.model, positions=model.positions, rope_base=model.rope_base)
            return dataclasses.replace(setup, model=model, dropout=right.dropout)
        if self.part is Part.SETTINGS:
            return dataclasses.replace(right, model=model, data=setup.data, dropout=setup.dropout, tail=setup.tail)
        return setup

    def tables(self, tables: Tables, setup: Setup) -> Tables:
        right = self.right.tables
        mask = tables if self.part is not Part.MASK else right
        rotary = tables if self.part is not Part.POSITIONS else right
        return dataclasses.replace(
            right if self.part is Part.MODEL else tables,
            allowed_NTS=mask.allowed_NTS,
            documents_N=mask.documents_N,
            rotary_q_NTK=rotary.rotary_q_NTK,
            rotary_k_NTK=rotary.rotary_k_NTK,
        )

    def parametrization(self, parametrization: Parametrization, setup: Setup) -> Parametrization:
        return self.right.parametrization if self.part is Part.MODEL else parametrization

    def updates(self, updates: Updates, setup: Setup) -> Updates:
        return self.right.updates if self.part is Part.UPDATES else updates

    def exchange(self, exchange: Exchange) -> Exchange:
        return self.right.exchange if self.part is Part.UPDATES else exchange

    def learning_rate(self, rate: float, step: int, start: int, setup: Setup) -> float:
        return self.declared.learning_rate(step) if self.part is Part.SETTINGS else rate

    def batch(self, batch: Batch, step: int, start: int, seed: int) -> Batch:
        if self.part is not Part.DATA:
            return batch
        clean = self.declared.batches(range(step, step + 1)).at(0)
        return clean if clean.inputs.shape == batch.inputs.shape else batch  # another context is the model's matter


def _forget_moments(state: State, _: State) -> State:
    """The optimizer's state as at the start."""
    return {**state, **{name: torch.zeros_like(state[name]) for name in ("first", "second", "count")}}


def changes(action: Action, declared: Job, step: int) -> list[Change]:
    """What an action changes of a run from a step on. Rolling back, stopping and asking change nothing here.

    declared: the run without a fault. Raises InputError for a part that is restored before the setup has changed it.
    """
    if action.kind is Kind.RESTORE:
        if any(at.step > step for at in declared.made):
            raise InputError(f"action {action}: not possible before step {max(at.step for at in declared.made)}")
        return [Restore(Part(action.value), declared, step)]
    make = _CHANGES.get(action.kind)
    return make(action.value) if make else []


def _rate(factor: float) -> Change:
    return Curve(lambda rate, since, setup: rate * factor)


def _rewarm(steps: float) -> Change:
    return Curve(lambda rate, since, setup: rate * min(1.0, (since + 1) / steps))


def _loss_scale(value: Any) -> Iterable[Change]:
    yield Setting("precision.dynamic", value == DYNAMIC)
    if value != DYNAMIC:
        scale = float(value)
        yield Setting("precision.loss_scale", scale)
        yield StateEdit(
            lambda state, _: {**state, "loss_scale": torch.full_like(state["loss_scale"], scale)}, resume=False
        )


_CHANGES: dict[Kind, Callable[[Any], list[Change]]] = {
    Kind.RATE: lambda value: [_rate(value)],
    Kind.REWARM: lambda value: [_rewarm(value)],
    Kind.CLIP: lambda value: [Setting("optimizer.clip", float(value))],
    Kind.SKIP: lambda value: [SkipBatches(int(value))],
    Kind.ROLL_BACK_AND_SKIP: lambda value: [SkipBatches(2 * int(value))],
    Kind.RESET_OPTIMIZER: lambda value: [StateEdit(_forget_moments, resume=False)],
    Kind.PRECISION: lambda value: [Setting("precision.format", Format(value))],
    Kind.LOSS_SCALE: lambda value: list(_loss_scale(value)),
    Kind.QK_NORM: lambda value: [Variant("model.qk_norm", True)],
    Kind.Z_LOSS: lambda value: [Setting("z_loss", float(value))],
}
