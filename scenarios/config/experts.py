"""Settings of a model with experts in the place of its MLPs: what its routers add to the objective."""

from dataclasses import dataclass, fields
from enum import Enum
from operator import attrgetter
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import ModelConfig


class BalanceAxis(Enum):
    """What a balance loss takes the mean probability of an expert over; the second is wrong on purpose."""

    TOKENS = "tokens"
    EXPERTS = "experts"  # of each token: one over their number, so that the loss is 1 and has no gradient


@dataclass(kw_only=True)
class RoutingConfig:
    """Weights in the objective of two losses that routers have, each summed over the layers (`models/experts`).

    balance_loss: that of Switch (Fedus et al. 2021). router_z_loss: that of ST-MoE (Zoph et al. 2022). The logged loss
    has none of them.
    """

    balance_loss: float = 0.01
    balance_axis: BalanceAxis = BalanceAxis.TOKENS
    router_z_loss: float = 0.0


ALIGNED, MULTIPLE = ("experts", "expert_units"), 16  # as the other sizes are, see `settings.ALIGNED`

# Setting to (lowest, highest, whether the lowest itself is allowed), for `settings.RANGES`.
EXPERT_RANGES: dict[str, tuple[float, float, bool]] = {
    "model.init.router_std": (0, 1e3, True),
    "routing.balance_loss": (0, 1e3, True),
    "routing.router_z_loss": (0, 1e3, True),
}
# What a run with experts has to be, by setting: none of the rest knows of them.
WITH_EXPERTS = {
    "precision.format": ("fp32", "bf16", "fp16"),
    "optimizer.kind": ("adamw", "sgd", "lion"),
    "model.recompute": ("none",),
    "distributed.ranks": (1,),
    "adapters.rank": (0,),
    "objective": ("next_token",),
}


def check_experts(setup: Any) -> None:
    """InputError for settings of experts without any, and for what a model with experts does not support."""
    model: ModelConfig = setup.model
    if not model.experts:
        _refuse_without(setup)
        return
    for name in ALIGNED:
        if getattr(model, name) % MULTIPLE:
            allowed = f"multiples of {MULTIPLE}"
            raise InputError(f"model.{name}: {getattr(model, name)} is not allowed; allowed: {allowed}")
    if model.experts_per_token > model.experts:
        most = f"1 to model.experts, {model.experts}"
        raise InputError(f"model.experts_per_token: {model.experts_per_token} is not allowed; allowed: {most}")
    for path, allowed_values in WITH_EXPERTS.items():
        value = attrgetter(path)(setup)
        value = value.value if isinstance(value, Enum) else value
        if value not in allowed_values:
            words = ", ".join(map(repr, allowed_values))
            raise InputError(f"{path}: {value!r} is not allowed with model.experts={model.experts}; allowed: {words}")


def _refuse_without(setup: Any) -> None:
    """InputError for the first setting that only experts have, where there are none."""
    usual = {item.name: item.default for item in fields(ModelConfig)}
    given = {f"model.{name}": usual[name] for name in ("experts_per_token", "expert_units", "capacity")}
    given |= {f"routing.{item.name}": item.default for item in fields(RoutingConfig)}
    for path, default in given.items():
        value = attrgetter(path)(setup)
        if value != default:
            value, only = (x.value if isinstance(x, Enum) else x for x in (value, default))
            raise InputError(f"{path}: {value!r} is not allowed without experts; allowed: {only!r}, or model.experts")
