"""One flat buffer holds the parameters of N runs, [N, P]; every weight is a view of it.

Parameters of one layer lie next to each other, so that a norm per layer is a norm of a slice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trainwreck.kernels.random import generator
from trainwreck.models.config import Activation, ModelConfig, Norm, Placement, Positions

if TYPE_CHECKING:
    import torch
    from torch import Tensor


LORA_A, LORA_B = ".lora_a", ".lora_b"  # how the names of an adapter's matrices end; the second starts at 0


class NoParameterError(ValueError):
    """A parameter that a configuration has not: a mixture of experts has no single MLP, a tied model no head."""


@dataclass(frozen=True)
class Slot:
    """One parameter: where it lies in the flat buffer and how it starts."""

    name: str
    shape: tuple[int, ...]
    start: int
    mean: float
    std: float
    decay: bool  # weight decay applies (matrices; not biases, gains or the token table)

    @property
    def stop(self) -> int:
        """One past the last element."""
        return self.start + math.prod(self.shape)


@dataclass
class Layout:
    """The order of all parameters. `segments` are (layer name, start, stop), in order of depth."""

    slots: list[Slot] = field(default_factory=list)
    segments: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """P, the number of parameters of one run."""
        return self.slots[-1].stop

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Start and stop of each segment."""
        return tuple((start, stop) for _, start, stop in self.segments)

    @cached_property
    def decay_mask(self) -> Tensor:
        """1 where weight decay applies, else 0; float32, [P]."""
        import torch

        mask = torch.zeros(self.size)
        for slot in self.slots:
            mask[slot.start : slot.stop] = float(slot.decay)
        return mask

    @cached_property
    def adapters(self) -> tuple[tuple[int, int], ...]:
        """Start and stop of the second matrix of each adapter."""
        return tuple((slot.start, slot.stop) for slot in self.slots if slot.name.endswith(LORA_B))

    def places(self, name: str) -> Tensor:
        """Where a parameter's elements lie in the flat buffer: int64, of the parameter's shape."""
        import torch

        slot = self.slot(name)
        return torch.arange(slot.start, slot.stop).view(slot.shape)

    def slot(self, name: str) -> Slot:
        """The parameter of a name; NoParameterError where the model has none of it."""
        found = next((slot for slot in self.slots if slot.name == name), None)
        if found is None:
            raise NoParameterError(f"the model has no parameter {name}, which is changed; allowed: models that have it")
        return found

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name to shape, in order."""
        return {slot.name: slot.shape for slot in self.slots}

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Name to view, each [N, *shape], of a flat buffer [N, P]."""
        return {slot.name: flat[:, slot.start : slot.stop].unflatten(1, slot.shape) for slot in self.slots}


def layout(config: ModelConfig) -> Layout:
    """The layout that a configuration leads to."""
    d, init = config.width, config.init
    out_std = init.matrix_std / math.sqrt(2 * config.layers) if init.scale_residual else init.matrix_std
    out_std = init.residual_std or out_std
    hidden = config.mlp_ratio * d
    gates = 2 if config.activation is Activation.SWIGLU else 1
    fan_in, expert_fan_in = gates * hidden, gates * config.expert_units
    result = Layout()

    def add(name: str, *shape: int, mean: float = 0.0, std: float = 0.0, decay: bool = False) -> None:
        start = result.slots[-1].stop if result.slots else 0
        result.slots.append(Slot(name, shape, start, mean, std, decay))

    def matrix(name: str, rows: int, columns: int, std: float, bias: float = 0.0) -> None:
        add(f"{name}.weight", rows, columns, std=std, decay=True)
        if config.bias:
            add(f"{name}.bias", columns, mean=bias)
        if config.lora_rank and name.startswith("layer_"):
            add(f"{name}{LORA_A}", rows, config.lora_rank, std=rows**-0.5, decay=True)
            add(f"{name}{LORA_B}", config.lora_rank, columns, decay=True)

    def experts(name: str, rows: int, columns: int, std: float, bias: float = 0.0) -> None:
        add(f"{name}.weight", config.experts, rows, columns, std=std, decay=True)
        if config.bias:
            add(f"{name}.bias", config.experts, columns, mean=bias)

    def norm(name: str) -> None:
        add(f"{name}.gain", d, mean=1.0)
        if config.norm is not Norm.RMS and config.bias:
            add(f"{name}.bias", d)

    def self_attention(layer: str) -> None:
        norm(f"{layer}.attention_norm")
        matrix(f"{layer}.qkv", d, 3 * d, init.matrix_std)
        if config.qk_norm:
            add(f"{layer}.qk_gain", 2, config.head_width, mean=1.0)
        matrix(f"{layer}.attention_out", d, d, out_std)

    def close(name: str) -> None:
        start = result.segments[-1][2] if result.segments else 0
        result.segments.append((name, start, result.slots[-1].stop))

    add("embedding.weight", config.vocab_size, d, std=init.embedding_std)
    if config.positions is not Positions.ROTARY:
        add("positions.weight", config.context, d, std=init.embedding_std)
    if config.encoder_layers:
        matrix("frames", config.frame_width, d, init.matrix_std)
    for i in range(config.encoder_layers):
        self_attention(f"encoder_{i}")
        norm(f"encoder_{i}.mlp_norm")
        matrix(f"encoder_{i}.mlp_in", d, fan_in, init.matrix_std, init.mlp_bias)
        matrix(f"encoder_{i}.mlp_out", hidden, d, out_std)
    if config.encoder_layers:
        norm("encoder_norm")
    close("embedding")
    for i in range(config.layers):
        self_attention(f"layer_{i}")
        if config.encoder_layers:
            norm(f"layer_{i}.cross_norm")
            matrix(f"layer_{i}.cross_q", d, d, init.matrix_std)
            matrix(f"layer_{i}.cross_kv", d, 2 * d, init.matrix_std)
            matrix(f"layer_{i}.cross_out", d, d, out_std)
        norm(f"layer_{i}.mlp_norm")
        if config.experts:
            add(f"layer_{i}.router.weight", d, config.experts, std=init.router_std, decay=True)
            experts(f"layer_{i}.experts_in", d, expert_fan_in, init.matrix_std, init.mlp_bias)
            experts(f"layer_{i}.experts_out", config.expert_units, d, out_std)
        else:
            matrix(f"layer_{i}.mlp_in", d, fan_in, init.matrix_std, init.mlp_bias)
            matrix(f"layer_{i}.mlp_out", hidden, d, out_std)
        close(f"layer_{i}")
    if config.placement is Placement.PRE:
        norm("final_norm")
    if not config.tied:
        matrix("head", d, config.vocab_size, init.head_std)
    elif config.bias:
        add("head.bias", config.vocab_size)
    if config.value_head:
        add("head.value.weight", d, 1)
    close("head")
    return result


TABLES = {"embedding.weight": 0, "head.weight": 1, "head.bias": 0}  # parameters that grow with the tokens: the axis


def fits(old: Layout, new: Layout) -> bool:
    """Whether weights of one layout can go on in another: what both have is of one shape, or has more tokens."""
    return all(_goes_on(name, shape, new.shapes.get(name, shape)) for name, shape in old.shapes.items())


def _goes_on(name: str, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    axis = TABLES.get(name)
    return all(a == b or (i == axis and a < b) for i, (a, b) in enumerate(zip(old, new, strict=True)))


def carried_over(flat: Tensor, old: Layout, new: Layout, fresh: Tensor) -> Tensor:
    """What a buffer [..., P] of one layout is in another: parameters that both have, the others as in `fresh`.

    Of a table that has more tokens, the old ones come first. fresh: [..., P of the new layout]. ValueError for layouts
    that do not fit.
    """
    if not fits(old, new):
        raise ValueError(
            "model: parameters of another shape are not allowed in mid-run; allowed: more or fewer of them"
        )
    made, before = fresh.clone(), {slot.name: slot for slot in old.slots}
    for slot in new.slots:
        if slot.name in before:
            at = before[slot.name]
            part = made[..., slot.start : slot.stop].unflatten(-1, slot.shape)
            for axis, size in enumerate(at.shape, part.ndim - len(at.shape)):
                part = part.narrow(axis, 0, size)
            part.copy_(flat[..., at.start : at.stop].unflatten(-1, at.shape))
    return made


def at_the_mean(flat: Tensor, model: ModelConfig, old: int) -> Tensor:
    """A buffer [..., P] of a model with the rows of its tables from `old` on at the mean of those before."""
    made = flat.clone()
    for slot in layout(model).slots:
        if slot.name in TABLES and old < model.vocab_size:
            part = made[..., slot.start : slot.stop].unflatten(-1, slot.shape)
            axis = part.ndim - len(slot.shape) + TABLES[slot.name]
            mean = part.narrow(axis, 0, old).mean(axis, keepdim=True)
            part.narrow(axis, old, model.vocab_size - old).copy_(mean)
    return made


def norm_names(config: ModelConfig) -> tuple[str, ...]:
    """The norms of the residual stream, in order of depth."""
    return tuple(slot.name.removesuffix(".gain") for slot in layout(config).slots if slot.name.endswith("norm.gain"))


def initial_parameters(config: ModelConfig, seeds: list[int], dtype: torch.dtype | None = None) -> Tensor:
    """Fresh parameters for runs of the given seeds, [N, P]; float32 where no dtype is given.

    Every parameter has a stream of its own name, so that two models that share a parameter's name
    and shape start with the same values in it (up to the standard deviation).
    """
    import torch

    plan = layout(config)
    flat = np.empty((len(seeds), plan.size), dtype=np.float64)
    for row, seed in zip(flat, seeds, strict=True):
        for slot in plan.slots:
            part = row[slot.start : slot.stop]
            part[:] = slot.mean
            if slot.std:
                part += slot.std * generator(seed, f"init/{slot.name}").standard_normal(part.size)
        if config.init.zero_padding:
            table = plan.slots[0]
            row[table.stop - config.width : table.stop] = 0.0
    return torch.from_numpy(flat).to(dtype or torch.float32)
