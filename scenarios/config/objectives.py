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
    RETRIEVAL = "retrieval"  # answers to questions, after passages that the model finds by itself


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
class RetrievalConfig:
    """Questions whose passages the model finds in an index of a store that changes.

    refresh: steps from one time that the index is made anew, of the weights and the store of then, to the next; 0 for
    step 0 alone.
    """

    refresh: int = 10


# Sections of a setup that are of one objective.
SECTIONS = {ObjectiveKind.DECODING: "decoding", ObjectiveKind.RETRIEVAL: "retrieval"}
# What a run has to be, by objective and setting.
ALLOWED: dict[ObjectiveKind, dict[str, tuple[Any, ...]]] = {
    ObjectiveKind.NEXT_TOKEN: {},
    ObjectiveKind.DECODING: {  # the cache knows no other
        "data.dialect": ("refrain",),
        "model.norm": ("layer", "rms"),
        "model.attention": ("reference",),
        "precision.format": ("fp32", "bf16", "fp16"),
        "dropout": (0.0,),
        "distributed.ranks": (1,),
        "growth.rows": (0,),
        "adapters.rank": (0,),
    },
    ObjectiveKind.RETRIEVAL: {  # passages are put into the rows as they are sampled
        "data.dialect": ("facts",),
        "data.pool": (0,),
        "data.longest": (0,),
        "data.padded": (False,),
        "data.short_every": (0,),
        "data.one_token_every": (0,),
        "data.padding_every": (0,),
        "distributed.ranks": (1,),
        "growth.rows": (0,),
        "adapters.rank": (0,),
    },
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
