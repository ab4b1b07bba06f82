"""Settings of a run in a segment of its steps, as plain values by short names.

The names are those of the plain program: the settings without their groups, and what tables, updates and
exchange say, read off the tensors. A tensor that the program has no setting for is refused.
"""

import dataclasses
import math
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.models.config import ModelConfig
from trainwreck.models.parameters import Layout, layout
from trainwreck.models.parametrization import Updates
from trainwreck.models.rotary import rotary_table
from trainwreck.models.tables import Tables
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.spec.exchange import Exchange, Matrix
from trainwreck.scenarios.spec.job import Segment

# Settings whose own name says too little without their group.
LONGER = {
    "evaluation.rows": "held_out_rows",
    "evaluation.every": "evaluate_every",
    "evaluation.dropout": "evaluate_with_dropout",
    "evaluation.average": "average_decay",
    "evaluation.sample": "evaluated_rows",
    "evaluation.fresh": "fresh_rows",
    "precision.weights": "weight_format",
    "precision.second_moments": "moment_format",
    "optimizer.kind": "optimizer",
    "loss": "loss_form",
    "growth.rows": "grown_rows",
    "growth.share": "share_anew",
    "adapters.rank": "adapter_rank",
    "adapters.language_seed": "adapted_language",
    "transcription.noise": "frame_noise",
    "policy.clip": "clip_low",
    "policy.entropy": "entropy_bonus",
    "policy.begun": "rewarded",
}
# What the plain program takes for granted.
GIVEN = {
    "source": "language", "bias": True, "residual_gain": 1.0, "text": "",
}  # fmt: skip
POSSIBLE = {
    "norm": ("layer", "batch"), "activation": ("gelu", "relu"), "format": ("fp32", "fp16", "bf16", "fp8"),
    "attention": ("reference", "fp16_scores", "softmax_unshifted"), "decay": ("cosine", "constant"),
}  # fmt: skip


class NotPlainError(InputError):
    """The plain program has no word for what this scenario does."""


def name_of(path: str) -> str:
    """The short name of a setting's dotted path."""
    return LONGER.get(path) or path.rsplit(".", 1)[-1]


def settings(setup: Setup) -> dict[str, Any]:
    """Every setting by its short name; an Enum is its value."""
    found: dict[str, Any] = {}

    def enter(node: Any, path: str) -> None:
        for item in dataclasses.fields(node):
            value, here = getattr(node, item.name), f"{path}{item.name}"
            if dataclasses.is_dataclass(value):
                enter(value, here + ".")
                continue
            name = name_of(here)
            assert name not in found, name
            found[name] = value.value if isinstance(value, Enum) else value

    enter(setup, "")
    return found


def told(segment: Segment) -> dict[str, Any]:
    """Settings, tables, updates and exchange of a segment by their short names. NotPlainError."""
    found = settings(segment.setup)
    for name, value in GIVEN.items():
        if found.pop(name) != value:
            raise NotPlainError(f"reproducer: {name} other than {value!r} is not in the plain program")
    for name, allowed in POSSIBLE.items():
        if found[name] not in allowed:
            raise NotPlainError(f"reproducer: {name} {found[name]!r} is not in the plain program")
    plan = layout(segment.setup.model)
    found["head_width"] = segment.setup.model.head_width
    return (
        found | _tables(segment.tables, segment.setup) | _updates(segment.updates, plan) | _exchange(segment.exchange)
    )


def _tables(tables: Tables, setup: Setup) -> dict[str, Any]:
    model = setup.model
    by_layer = {
        "branch_gain": _by_layer(tables.branch_gain_NL2, model.layers),
        "shortcut_gain": _by_layer(tables.shortcut_gain_NL2, model.layers),
    }
    return by_layer | {
        "scale": _rounded(tables.scale_N.item()),
        "documents_apart": bool(tables.documents_N.item()),
        "logit_gain": 1.0 if tables.logit_gain_N is None else _rounded(tables.logit_gain_N.item()),
        "noise": 0.0 if tables.noise_N is None else _rounded(tables.noise_N.item()),
        "without_norm": _without_norm(tables.bare_NL2),
        **_cache(tables),
        **_mask(tables.allowed_NTS[0]),
        **_angles(tables.rotary_q_NTK[0], tables.rotary_k_NTK[0], model),
    }


def _cache(tables: Tables) -> dict[str, Any]:
    """The slot and the position of each position in the cache, and how many rows further on each slot is read."""
    own = range(tables.allowed_NTS.shape[1])
    found = {"cache_slots": tables.cache_slots_NT, "cache_places": tables.cache_places_NT}
    moved = {name: tuple(own if table is None else table[0].tolist()) for name, table in found.items()}
    rows = tables.cache_rows_NS
    return moved | {"cache_rows": tuple([0] * len(own) if rows is None else rows[0].tolist())}


def _mask(allowed: Tensor) -> dict[str, Any]:
    """diagonal: the last one that a query may see, 0 for its own; inverted: everything else in its place."""
    t = len(allowed)
    for inverted in (False, True):
        for diagonal in (0, 1, -1, t):
            if torch.equal(torch.ones_like(allowed).tril(diagonal), allowed ^ inverted):
                return {"diagonal": diagonal, "inverted": inverted}
    raise NotPlainError("reproducer: this mask is not in the plain program")


def _angles(q: Tensor, k: Tensor, model: ModelConfig) -> dict[str, Any]:
    """angle_format: in which the angles were formed; the positions that the rows of the rotary tables stand for."""
    base, width = model.rope_base, model.head_width
    exact, rounded = (rotary_table(len(q), width, base, angles=x) for x in (torch.float64, torch.bfloat16))
    half = all(torch.equal(table, rounded) and not torch.equal(table, exact) for table in (q, k))
    q, k = (exact, exact) if half else (q, k)
    return {
        "angle_format": "bf16" if half else "fp32",
        "q_positions": _positions(q, base, width),
        "k_positions": _positions(k, base, width),
    }


def _positions(table: Tensor, base: float, width: int) -> tuple[float, ...]:
    """The position that each row of a rotary table stands for, read off its slowest pair."""
    slowest = base ** -((width - 2) / width)
    found = [round(x, 3) for x in (torch.angle(table[:, -1].to(torch.complex128)) / slowest).tolist()]
    if found[-1] and any(abs(p - round(p)) > 1e-6 for p in found):  # fractions are read best off the last row
        stretch = round((len(found) - 1) / found[-1], 1)
        found = [i / stretch if stretch else 0.0 for i in range(len(found))]
    angle = torch.outer(torch.tensor(found, dtype=torch.float64), _frequencies(base, width))
    if (torch.polar(torch.ones_like(angle), angle) - table).abs().max() > 1e-4:
        raise NotPlainError("reproducer: this rotary table is not in the plain program")
    return tuple(int(p) if p == int(p) else p for p in found)


def _frequencies(base: float, width: int) -> Tensor:
    return torch.angle(rotary_table(2, width, base, torch.float64)[1])


def _by_layer(gain_NL2: Tensor | None, layers: int) -> list[float]:
    """One factor a layer."""
    if gain_NL2 is None:
        return [1.0] * layers
    if not torch.equal(gain_NL2[0, :, 0], gain_NL2[0, :, 1]):
        raise NotPlainError("reproducer: other factors for attention and MLP are not in the plain program")
    return [_rounded(x) for x in gain_NL2[0, :, 0].tolist()]


def _without_norm(bare_NL2: Tensor | None) -> tuple[str, ...]:
    if bare_NL2 is None:
        return ()
    if any(bare.any() and not bare.all() for bare in bare_NL2[0].unbind(1)):
        raise NotPlainError("reproducer: single layers without a norm are not in the plain program")
    return tuple(
        name for name, bare in zip(("attention_norm", "mlp_norm"), bare_NL2[0, 0].tolist(), strict=True) if bare
    )


def _updates(updates: Updates, plan: Layout) -> dict[str, Any]:
    kept = updates.kept_N is not None and bool(updates.kept_N.item())
    still = updates.moves_NP is not None and not updates.moves_NP.any()
    if updates.moves_NP is not None and not still:
        raise NotPlainError("reproducer: some weights that do not move are not in the plain program")
    return {
        "gradient_gain": 1.0 if updates.gain_N is None else _rounded(updates.gain_N.item()),
        "gradients_kept": kept,
        "gradient_rows": None if updates.rows_N is None else int(updates.rows_N.item()),
        "weights_move": not still,
        **_reached(updates.reaches_NP, plan),
        "decay_factors": None if updates.decays_NP is None else _factors(updates.decays_NP[0], plan),
    }


def _reached(reaches_NP: Tensor | None, plan: Layout) -> dict[str, Any]:
    """frozen: what no gradient reaches; adapters_train: where all but adapters and the last norm is frozen by plan."""
    if reaches_NP is None or not plan.adapters:
        return {"frozen": () if reaches_NP is None else _prefixes(~reaches_NP[0], plan), "adapters_train": True}
    for train in (True, False):
        right = [(".lora_" in slot.name and train) or slot.name.startswith("final_norm") for slot in plan.slots]
        reached = [reaches_NP[0, slot.start : slot.stop] for slot in plan.slots]
        if all(bool((part == here).all()) for part, here in zip(reached, right, strict=True)):
            return {"frozen": (), "adapters_train": train}
    raise NotPlainError("reproducer: other frozen weights beside adapters are not in the plain program")


def _prefixes(where: Tensor, plan: Layout) -> tuple[str, ...]:
    """What the names of the parameters under a mask begin with; the empty one for all."""
    hit = {slot.name: where[slot.start : slot.stop] for slot in plan.slots}
    if any(part.any() and not part.all() for part in hit.values()):
        raise NotPlainError("reproducer: parts of a parameter that are frozen are not in the plain program")
    names = [name for name, part in hit.items() if part.all()]
    if len(names) == len(hit):
        return ("",)
    found: list[str] = []
    for name in names:
        group = name.split(".")[0] + "."
        whole = all(other in names for other in hit if other.startswith(group))
        prefix = group if whole else name
        if prefix not in found:
            found.append(prefix)
    return tuple(found)


def _factors(decays: Tensor, plan: Layout) -> dict[str, float]:
    """Parameters whose decay is not the layout's, with the factor on theirs; the empty name is every one."""
    found = {}
    for slot in plan.slots:
        part = decays[slot.start : slot.stop]
        if not bool((part == part[0]).all()):
            raise NotPlainError("reproducer: decay of a part of a parameter is not in the plain program")
        found[slot.name] = _rounded(part[0].item())
    if len(set(found.values())) == 1:
        return {"": next(iter(found.values()))}
    return {slot.name: found[slot.name] for slot in plan.slots if found[slot.name] != float(slot.decay)}


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "shards": exchange.shards,
        "hears": _marks(exchange.hears),
        "late": _marks(exchange.late),
        "summed": exchange.summed,
        "alone": exchange.alone,
        "unshared": exchange.unshared,
        "clips_alone": exchange.clips_alone,
    }


def _marks(matrix: Matrix) -> tuple[str, ...]:
    """One text a receiver, with 1 for yes and 0 for no of each sender."""
    return tuple("".join(str(int(entry)) for entry in row) for row in matrix)


def _rounded(number: float) -> float:
    """The shortest number that is the same in float32."""
    if not math.isfinite(number):
        raise NotPlainError(f"reproducer: {number} is not in the plain program")
    return next(x for x in (float(f"{number:.{d}g}") for d in range(1, 18)) if torch.tensor(x).item() == number)
