"""The distribution that the healthy setups of the plan `wild` are drawn from, by number.

    leader             a scenario, evenly: what its own base needs stays (SGD, fp16 with a scaler, ranks, Post-LN,
                       a pool of rows), and every scenario that needs no more than that can be in the setup. A base with
                       another objective, or with rows of prompts or frames, keeps its data, context and length
    layers             1 to 8, log-uniform
    width, heads       32, 48, 64, 96 or 128; heads of 8 features or more
    context, rows      16 to 128 tokens in steps of 16; 4 to 32 rows a batch
    activation, norm   GELU .45, SwiGLU .45, ReLU .1; LayerNorm or RMSNorm evenly; norms on queries and keys .2
    source             real text .2, else a dialect: echo .35, full .25, chain .2, recall .1, far echo .1
    vocabulary         of the model: 64 (of text 256) to 4,096, log-uniform; what the source lacks is never emitted
    steps              150 to 3,000, log-uniform; evaluated every 10 steps to a quarter of the run
    initialisation     matrices with 0.72 / sqrt(width), where the leader has none of its own
    rate               AdamW: 2e-4 to 3e-2 times sqrt(64 / width), log-uniform; SGD keeps the leader's
    schedule           cosine .4, linear .2, WSD .2, constant .2, to 0, 0.05 or 0.1 of the peak; warm-up of 0.5 % to
                       20 % of the steps, log-uniform
    AdamW              beta2 .95, .98, .99 or .999; weight decay 0, .01, .1 or .3
    clipping           at 1 (.6), at .5 or .25 (.2), none (.2)
    dropout            none .85, .05 or .1

Layers to initialisation are drawn once for each of `SHAPES` shapes, so that runs can be trained side by side. What
would take more than `MOST_SECONDS` of a core for a run is drawn again. `measure.py` keeps the setups that train.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.random import generator
from trainwreck.models.config import OptimizerKind
from trainwreck.scenarios.config.drawn import setup_of
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.config.settings import MULTIPLE, Dialect, Setup, as_dict, leaves
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.datasets.draws import lot, planned
from trainwreck.scenarios.datasets.resources import core_seconds
from trainwreck.scenarios.spec.proofs import proven_severities
from trainwreck.scenarios.spec.registry import scenario

SHAPES = 40
SIDE_BY_SIDE = 8  # runs, as many as a setup has healthy ones
MOST_SECONDS = 20.0
SHORTEST, LONGEST = 150, 3000  # steps
LOWEST, HIGHEST = 2e-4, 3e-2  # of the rate at a width of 64
DIALECTS = {"echo": 0.35, "full": 0.25, "chain": 0.2, "recall": 0.1, "far_echo": 0.1}

# What is drawn for all setups; a scenario's own base has no say in it.
_ALWAYS = {
    "model.layers", "model.width", "model.heads", "model.context", "model.vocab_size", "model.activation", "model.norm",
    "model.qk_norm", "data.source", "data.dialect", "data.rows", "steps", "evaluation.every", "dropout",
    "schedule.warmup_steps", "schedule.decay", "schedule.final_fraction",
}  # fmt: skip
# What a base keeps whose rows are of another kind than text and `DIALECTS`.
_OF_ROWS = {
    "objective", "data.source", "data.dialect", "data.rows", "model.context", "model.vocab_size", "steps",
    "evaluation.every",
}  # fmt: skip
_OTHER_ROWS = {Dialect.CHAT, Dialect.SPEECH}
_WITH_ADAMW = {"optimizer.lr", "optimizer.beta2", "optimizer.weight_decay", "optimizer.clip"}


@dataclass(frozen=True)
class Shape:
    """What runs that are trained side by side share, as settings by their dotted path."""

    number: int
    settings: dict[str, Any]


@cache
def shape(number: int) -> Shape:
    """The shape of a number, the first draw that is not too costly."""
    for attempt in range(1000):
        draw = generator(number, "wild/shape", attempt)
        width = int(draw.choice([32, 48, 64, 96, 128]))
        heads = [h for h in (1, 2, 3, 4, 6, 8) if width % (2 * h) == 0 and width // h >= 8]
        text = draw.random() < 0.2
        steps = 50 * round(_log_uniform(draw, SHORTEST, LONGEST) / 50)
        settings: dict[str, Any] = {
            "model.layers": round(_log_uniform(draw, 0.6, 8.4)) or 1,
            "model.width": width,
            "model.heads": int(draw.choice(heads)),
            "model.context": MULTIPLE * int(draw.integers(1, 9)),
            "model.vocab_size": MULTIPLE * round(_log_uniform(draw, 256 if text else 64, 4096) / MULTIPLE),
            "model.activation": str(draw.choice(["gelu", "swiglu", "relu"], p=[0.45, 0.45, 0.1])),
            "model.norm": str(draw.choice(["layer", "rms"])),
            "model.qk_norm": bool(draw.random() < 0.2),
            "model.init.matrix_std": _round(0.72 / math.sqrt(width)),
            "data.source": "text" if text else "language",
            "data.dialect": "full" if text else str(draw.choice(list(DIALECTS), p=list(DIALECTS.values()))),
            "data.rows": int(draw.choice([4, 8, 12, 16, 24, 32])),
            "steps": steps,
            "evaluation.every": round(_log_uniform(draw, 10, steps / 4)),
        }
        if _cost(setup_of(settings)) <= MOST_SECONDS:
            return Shape(number, settings)
    raise AssertionError(f"no shape {number} within {MOST_SECONDS} s")


@cache
def leaders() -> tuple[str, ...]:
    """Scenarios of this version of the plans that are proven at some severity and have a twin."""
    return tuple(id for id, entry in planned().items() if proven_severities(id) and not entry.own_twin)


@cache
def leader(number: int) -> str:
    """Who leads a setup: the first by a hash of number and name, so that a new scenario moves few numbers."""
    return min(leaders(), key=lambda name: lot(f"wild {number}", name))


@cache
def drawn(number: int) -> tuple[str, Shape, Setup]:
    """Leader, shape and setup of a number, the first draw that its settings allow."""
    first = leader(number)
    for attempt in range(1000):
        draw = generator(number, f"wild/setup/{first}", attempt)
        form = shape(int(draw.integers(SHAPES)))
        steps, width = needs(first).get("steps", form.settings["steps"]), form.settings["model.width"]
        settings = dict(form.settings) | {
            "schedule.decay": str(draw.choice(["cosine", "linear", "wsd", "constant"], p=[0.4, 0.2, 0.2, 0.2])),
            "schedule.final_fraction": float(draw.choice([0.0, 0.05, 0.1])),
            "schedule.warmup_steps": round(steps * _log_uniform(draw, 0.005, 0.2)),
            "optimizer.lr": _round(_log_uniform(draw, LOWEST, HIGHEST) * math.sqrt(64 / width)),
            "optimizer.beta2": float(draw.choice([0.95, 0.98, 0.99, 0.999])),
            "optimizer.weight_decay": float(draw.choice([0.0, 0.01, 0.1, 0.3])),
            "optimizer.clip": [1.0, 0.5, 0.25, None][int(draw.choice(4, p=[0.6, 0.1, 0.1, 0.2]))],
            "dropout": float(draw.choice([0.0, 0.05, 0.1], p=[0.85, 0.075, 0.075])),
        }
        found = _with_needs(first, settings)
        if found is not None and _cost(found) <= MOST_SECONDS:
            return first, form, found
    raise AssertionError(f"no setup {number}")


@cache
def needs(id: str) -> dict[str, Any]:
    """Settings that a scenario's own base has other than the size's, apart from what is drawn for all."""
    entry = scenario(id)
    own, usual = entry.base(healthy(entry.sizes[0])), leaves(as_dict(healthy(entry.sizes[0])))
    overruled = _ALWAYS | (_WITH_ADAMW if own.optimizer.kind is OptimizerKind.ADAMW else set())
    kept = _OF_ROWS if has_own_rows(own) else set()
    return {
        path: value
        for path, value in leaves(as_dict(own)).items()
        if path in kept or (value != usual[path] and path not in overruled)
    }


def has_own_rows(setup: Setup) -> bool:
    """Whether it has another objective than the next token of text, or rows of prompts or of frames."""
    return setup.objective is not ObjectiveKind.NEXT_TOKEN or setup.data.dialect in _OTHER_ROWS


def fitting(setup: Setup) -> list[str]:
    """Scenarios that need nothing that a setup lacks."""
    have = leaves(as_dict(setup))
    return [id for id in leaders() if all(have[path] == value for path, value in needs(id).items())]


def _with_needs(leader: str, settings: dict[str, Any]) -> Setup | None:
    """A setup with these settings and what the leader needs; None where the two do not go together."""
    wanted = needs(leader)
    if any(path.startswith("model.init.") for path in wanted):
        settings = {path: value for path, value in settings.items() if path != "model.init.matrix_std"}
    if "optimizer.kind" in wanted:  # another one than AdamW
        settings = {path: value for path, value in settings.items() if path not in _WITH_ADAMW}
    try:
        return setup_of(settings | wanted)
    except (InputError, ValueError):
        return None


def _cost(setup: Setup) -> float:
    """Seconds of a core for one of `SIDE_BY_SIDE` runs."""
    return core_seconds([setup] * SIDE_BY_SIDE) / SIDE_BY_SIDE


def _log_uniform(draw: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(math.log(low), math.log(high))))


def _round(value: float) -> float:
    """Two significant digits."""
    return float(f"{value:.2g}")
