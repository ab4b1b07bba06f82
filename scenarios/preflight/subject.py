"""What a run is about to be started with: a model, a batch, and how the two meet."""

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainwreck.evaluation.errors import InputError

BY_HEART = 500  # steps
FEWEST_TARGETS = 32  # of a tiny batch: the 32 examples of the sanity check


@dataclass
class Preflight:
    """A model and one batch, for the checks before a run. Model, inputs and targets are enough.

    model: returns logits, [B, K], [B, T, K] or [B * T, K], or something with `.logits`. inputs: a
    tensor, or a tuple or dict of arguments; token ids are found in the tensor, the first argument or
    `input_ids`. targets: class ids, [B] or [B, T].

    loss: loss(output, targets), a scalar; cross-entropy by default. step: step(model, inputs, targets)
    does one training step of yours, and may return its loss; by default Adam's. optimizer: only to
    ask whether it holds every parameter. vocab_size: tokens that exist, where the table has more rows.
    ignore_index: target that is not scored. shift: targets[t] should be inputs[t + shift]: 1 for the
    next token, 0 where the loss shifts, None where targets are something else. end: the token that ends
    an answer, if the model is to learn it. tied: names of two parameters that are meant to be one, as head and token
    table. frozen: parameters that are meant to stand still, as shell patterns. trained: the model is past its
    initialisation. mixed: the format of autocast in the run, or the model as it is in low precision. fp32: the same
    model in full precision, where `model` casts by itself. loss_scale: where a GradScaler begins. routed: tokens go to
    experts of a limited capacity, so that one hangs on the others of its batch, and the loss has steps.
    again: builds the same once more.

    Nothing here is written to: checks work on deep copies. InputError for what can't be a run.

    >>> net = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
    >>> tokens = torch.arange(8).repeat(2, 1)
    >>> Preflight(net, tokens[:, :-1], tokens[:, 1:]).classes
    8
    """

    model: nn.Module
    inputs: Any
    targets: Tensor
    loss: Callable[[Any, Tensor], Tensor] | None = field(default=None, kw_only=True)
    step: Callable[[nn.Module, Any, Tensor], Any] | None = field(default=None, kw_only=True)
    optimizer: torch.optim.Optimizer | None = field(default=None, kw_only=True)
    vocab_size: int | None = field(default=None, kw_only=True)
    ignore_index: int = field(default=-100, kw_only=True)
    shift: int | None = field(default=1, kw_only=True)
    end: int | None = field(default=None, kw_only=True)
    tied: tuple[str, str] | None = field(default=None, kw_only=True)
    frozen: Sequence[str] = field(default=(), kw_only=True)
    trained: bool = field(default=False, kw_only=True)
    mixed: torch.dtype | nn.Module = field(default=torch.bfloat16, kw_only=True)
    fp32: nn.Module | None = field(default=None, kw_only=True)
    loss_scale: float = field(default=1.0, kw_only=True)
    routed: bool = field(default=False, kw_only=True)
    again: "Callable[[], Preflight] | None" = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        def wrong(name: str, value: object, allowed: str) -> InputError:
            return InputError(f"{name}: {value} is not allowed; allowed: {allowed}")

        if not isinstance(self.model, nn.Module):
            raise wrong("model", _kind(self.model), "a torch.nn.Module")
        if not isinstance(self.targets, Tensor):
            raise wrong("targets", _kind(self.targets), "a tensor")
        tensors = [x for x in arguments(self.inputs) if isinstance(x, Tensor)]
        if not tensors:
            raise wrong("inputs", _kind(self.inputs), "a tensor, or a tuple or dict with one")
        if self.targets.ndim == 0 or len(self.targets) == 0:
            raise wrong("targets", f"shape {list(self.targets.shape)}", "one or more rows")
        if not any(x.ndim and len(x) == len(self.targets) for x in tensors):
            shapes = ", ".join(str(list(x.shape)) for x in tensors)
            raise wrong("inputs", f"shape {shapes}", f"{len(self.targets)} rows, as many as targets")
        if not any(True for _ in self.model.parameters()):
            raise wrong("model", f"{_kind(self.model)} without parameters", "a model that can learn")
        if self.vocab_size is not None and self.vocab_size < 1:
            raise wrong("vocab_size", self.vocab_size, "1 or more")
        if not self.loss_scale > 0:
            raise wrong("loss_scale", self.loss_scale, "over 0")
        if self.targets.is_floating_point() and self.loss is None:
            raise wrong("targets", str(self.targets.dtype), "class ids (int64), or a loss of your own")

    @property
    def ids(self) -> Tensor | None:
        """Token ids [B, T] among the inputs; None where there are none."""
        first = self.inputs.get("input_ids") if isinstance(self.inputs, Mapping) else arguments(self.inputs)[0]
        if not isinstance(first, Tensor) or first.is_floating_point() or first.dtype == torch.bool:
            return None
        return first if first.ndim == 2 else None

    def with_ids(self, ids: Tensor) -> Any:
        """The inputs with other token ids."""
        if isinstance(self.inputs, Mapping):
            return {**self.inputs, "input_ids": ids}
        return (ids, *self.inputs[1:]) if isinstance(self.inputs, (tuple, list)) else ids

    @property
    def classified(self) -> bool:
        """Whether targets are class ids."""
        return not self.targets.is_floating_point()

    @property
    def scored(self) -> Tensor:
        """Bool, as targets: which of them count."""
        return self.targets != self.ignore_index

    @property
    def classes(self) -> int:
        """Width of the logits."""
        with torch.no_grad():
            return self.logits(self.output(self.copy(), self.inputs), self.targets).shape[-1]

    def copy(self, of: nn.Module | None = None) -> nn.Module:
        """A deep copy of the model, or of another one, without gradients; in the mode it is in."""
        model = copy.deepcopy(self.model if of is None else of)
        model.zero_grad(set_to_none=True)
        return model

    def output(self, model: nn.Module, inputs: Any) -> Any:
        """What a model says."""
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)

    def logits(self, output: Any, targets: Tensor) -> Tensor:
        """The logits in an output, one row a target, [M, K]. InputError where they don't fit."""
        found = getattr(output, "logits", None)
        if found is None and isinstance(output, Mapping):
            found = output.get("logits")
        if found is None:
            found = output[0] if isinstance(output, (tuple, list)) else output
        if not isinstance(found, Tensor):
            raise InputError(f"model: returns {_kind(output)}; allowed: logits, or something with .logits")
        if found.shape[:-1] != targets.shape and found.ndim > 2 and found.shape[2:] == targets.shape[1:]:
            found = found.movedim(1, -1)  # classes second, as torch's cross-entropy likes it
        if found.ndim < 2 or found.shape[:-1].numel() != targets.numel():
            raise InputError(f"model: logits {list(found.shape)} do not fit targets {list(targets.shape)}")
        return found.flatten(0, -2)

    def objective(self, model: nn.Module, inputs: Any, targets: Tensor) -> Tensor:
        """The loss of a batch, a scalar with its graph."""
        output = self.output(model, inputs)
        if self.loss is not None:
            return self.loss(output, targets)
        rows = self.logits(output, targets).float()
        return F.cross_entropy(rows, targets.reshape(-1).long(), ignore_index=self.ignore_index)

    def gradients(self, model: nn.Module, scale: float = 1.0) -> tuple[float, dict[str, Tensor]]:
        """Loss of the batch and the gradient of each parameter that gets one; none where the loss has no graph."""
        model.zero_grad(set_to_none=True)
        loss = self.objective(model, self.inputs, self.targets)
        if loss.requires_grad:
            (loss * scale).backward()
        found = {name: p.grad.detach() / scale for name, p in model.named_parameters() if p.grad is not None}
        return float(loss.detach()), found

    def tiny(self) -> tuple[Any, Tensor]:
        """The first rows of the batch that hold at least 32 scored targets, or all of it."""
        counts = self.scored.reshape(len(self.targets), -1).sum(1).cumsum(0)
        rows = min(len(counts), int((counts < FEWEST_TARGETS).sum()) + 1)

        def cut(x: Any) -> Any:
            return x[:rows] if isinstance(x, Tensor) and x.ndim and len(x) == len(self.targets) else x

        if isinstance(self.inputs, Mapping):
            return {name: cut(x) for name, x in self.inputs.items()}, self.targets[:rows]
        if isinstance(self.inputs, (tuple, list)):
            return tuple(cut(x) for x in self.inputs), self.targets[:rows]
        return cut(self.inputs), self.targets[:rows]


def subject_of(made: Any) -> Preflight:
    """What a factory made as a Preflight: one, or (model, inputs, targets), or a dict of its fields."""
    if isinstance(made, Preflight):
        return made
    names = list(Preflight.__dataclass_fields__)
    if isinstance(made, Mapping):
        extra = [name for name in made if name not in names]
        missing = [name for name in names[:3] if name not in made]
        if extra or missing:
            difference = f"without {missing[0]!r}" if missing else f"with {extra[0]!r}"
            raise InputError(f"factory: a dict {difference} is not allowed; allowed: {', '.join(names)}")
        return Preflight(**made)
    if isinstance(made, (tuple, list)) and len(made) == 3:
        return Preflight(*made)
    raise InputError(
        f"factory: returns {_kind(made)}; allowed: (model, inputs, targets), a dict, or trainwreck.Preflight(...)"
    )


@contextmanager
def isolated(seed: int = 0) -> Iterator[None]:
    """Every global random stream seeded inside, and afterwards as it was."""
    here, there = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(here)
            np.random.set_state(there)


def without_dropout(model: nn.Module) -> nn.Module:
    """The model with every dropout module at rate 0; training is otherwise as it is."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def share(step: int) -> float:
    """Share of the learning rate at a step of memorising: a hundredth, up to 1 half way, and back.

    So every rate up to the largest is tried, and what was learnt at it is settled at the end.
    """
    half = BY_HEART / 2
    return float(100.0 ** -min(1.0, abs(step - half) / half))


def arguments(inputs: Any) -> list[Any]:
    """The arguments that a model is called with."""
    if isinstance(inputs, Mapping):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]


def log_classes(classes: int) -> float:
    """ln K, the loss of a guess among K classes."""
    return math.log(classes)


def _kind(value: object) -> str:
    return type(value).__name__
