"""What runs are trained for: the objectives that there are, and settings that only runs of one objective have."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any

from trainwreck.evaluation.errors import InputError


class ObjectiveKind(Enum):
    """What a run is trained for, and evaluated by; a module of `training.objectives` each."""

    NEXT_TOKEN = "next_token"  # the next token of given rows
    DECODING = "decoding"  # rows that the model goes on with by itself
    DIFFUSION = "diffusion"  # tokens that are masked, as many as a timestep says


@dataclass(kw_only=True)
class DecodingConfig:
    """Rows that the model goes on with by itself, token after token, through a cache of keys and values.

    Held-out rows are evaluated so. scheduled_sampling: share of the tokens that training reads from what the model
    would have written there, and not from the row (Bengio et al. 2015). flush: what is cached of held-out prompts is
    cleared before each evaluation.
    """

    scheduled_sampling: float = 0.0
    flush: bool = True


@dataclass(kw_only=True)
class DiffusionConfig:
    """Tokens masked by a noise schedule, to be told from those that are left: masked diffusion.

    At timestep t, from 0 to 1, the share t of a row's tokens is masked. emphasis: a row counts (1 + emphasis) * t **
    emphasis times in training; 0 is the evidence bound, in which every timestep counts alike. Held-out rows have that.
    """

    emphasis: float = 0.0


SECTIONS = {ObjectiveKind.DECODING: "decoding", ObjectiveKind.DIFFUSION: "diffusion"}  # each of one objective
# What a run has to be to decode, by setting: the cache knows no other.
DECODES: dict[str, tuple[Any, ...]] = {
    "model.causal": (True,),
    "data.dialect": ("refrain",),
    "model.norm": ("layer", "rms"),
    "model.attention": ("reference",),
    "precision.format": ("fp32", "bf16", "fp16"),
    "dropout": (0.0,),
    "distributed.ranks": (1,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
# What a run has to be to fill masks in: the mask is the last row of the token table, and samples are held against the
# language's own steps.
DENOISES: dict[str, tuple[Any, ...]] = {
    "model.causal": (False,),
    "data.source": ("language",),
    "data.dialect": ("walk",),
    "data.padding_every": (0,),
    "growth.rows": (0,),
    "adapters.rank": (0,),
}
ALLOWED = {
    ObjectiveKind.NEXT_TOKEN: {"model.causal": (True,)},
    ObjectiveKind.DECODING: DECODES,
    ObjectiveKind.DIFFUSION: DENOISES,
}


def check_objective(setup: Any) -> None:
    """InputError for a setting of another objective than the setup's, or one that its objective does not allow."""
    kind: ObjectiveKind = setup.objective
    for owner, name in SECTIONS.items():
        section = getattr(setup, name)
        for item in dataclasses.fields(section) if owner is not kind else ():
            value = getattr(section, item.name)
            if value != item.default:
                own = SECTIONS.get(kind)
                has = f"settings of {own}" if own else "no settings of its own"
                raise InputError(
                    f"{name}.{item.name}: {value!r} is not allowed with objective={kind.value}, which has {has}; "
                    f"allowed: {item.default!r}, or objective={owner.value}"
                )
    for path, allowed in ALLOWED[kind].items():
        value = attrgetter(path)(setup)
        value = value.value if isinstance(value, Enum) else value
        if value not in allowed:
            words = ", ".join(map(repr, allowed))
            raise InputError(f"{path}: {value!r} is not allowed with objective={kind.value}; allowed: {words}")
