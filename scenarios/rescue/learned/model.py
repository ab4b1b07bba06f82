"""A learned policy as a file: arrays of numbers and one piece of JSON, nothing that runs when it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.detectors.learned.trees import Nodes
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_arrays, write_arrays
from trainwreck.scenarios.rescue.learned.situation import names

VERSION = 1  # of the file, and of what the numbers of a situation mean
FORMAT, COMMAND = "trainwreck-policy", "trainwreck rescue DIR --learn"
WEIGHTS = "weights.npz"


@dataclass(frozen=True)
class Trees(Nodes):
    """Regression trees whose leaves hold a number for each action. value: [M, A]."""

    value: np.ndarray

    def __call__(self, row: np.ndarray) -> np.ndarray:
        """Mean over the trees for one row of numbers, [F] to [A]."""
        at, row = self.roots, row.astype(np.float32)  # as they were grown
        while True:
            further = np.where(row[self.feature[at]] <= self.threshold[at], self.left[at], self.right[at])
            if (further == at).all():
                return np.asarray(self.value[at].mean(0))
            at = further


@dataclass(frozen=True)
class Model:
    """What `trainwreck rescue DIR --learn` makes.

    actions: [A], as `Action.parse` reads them. margin: nats that the best action must promise. calls: see `Situation`.
    about: how it came to be.
    """

    trees: Trees
    actions: tuple[str, ...]
    margin: float
    calls: Mapping[str, Sequence[str]]
    about: Mapping[str, Any]

    def choose(self, row: np.ndarray) -> str | None:
        """The action that promises most, None where that is not more than the margin. row: of `Situation.see`."""
        promised = self.trees(row)
        best = int(promised.argmax())
        return self.actions[best] if promised[best] > self.margin else None


def write_model(path: Path, model: Model) -> None:
    """Write it, atomically. The same model gives the same bytes."""
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "actions": list(model.actions),
        "margin": model.margin,
        "calls": {cause: list(actions) for cause, actions in model.calls.items()},
        "about": dict(model.about),
    }
    arrays = {field.name: getattr(model.trees, field.name) for field in fields(Trees)}
    write_arrays(path, facts, arrays)


def read_model(path: Path) -> Model:
    """Read it. InputError that names a file which is missing, damaged or of another version."""
    facts, arrays = read_arrays(path, COMMAND)
    foreign = InputError(f"{path}: damaged, or not what `{COMMAND}` writes")
    if facts.get("format") != FORMAT or "version" not in facts:
        raise foreign
    if facts["version"] != VERSION:
        raise InputError(f"{path}: version {facts['version']} is not allowed; allowed: {VERSION}; learn it again")
    try:
        trees = Trees(**{field.name: arrays[field.name] for field in fields(Trees)})
        model = Model(trees, tuple(facts["actions"]), float(facts["margin"]), facts["calls"], facts["about"])
        whole = trees.value.shape == (len(trees.feature), len(model.actions)) and _within(
            trees, len(names(model.calls))
        )
    except (ValueError, KeyError, AttributeError, TypeError):
        raise foreign from None
    if not whole:
        raise foreign
    return model


def _within(trees: Trees, count: int) -> bool:
    """Whether every node of the trees leads to a later one or to itself, so that each way ends, and reads a number."""
    own = np.arange(len(trees.feature))
    leads = all(
        len(next_) == len(own) and (next_ >= own).all() and (next_ < len(own)).all()
        for next_ in (trees.left, trees.right)
    )
    read = len(trees.threshold) == len(own) and ((trees.feature >= 0) & (trees.feature < count)).all()
    return bool(leads and read and len(trees.roots) and ((trees.roots >= 0) & (trees.roots < len(own))).all())


@cache
def shipped() -> Model:
    """The one that ships with the package."""
    return read_model(Path(str(files("trainwreck.scenarios.rescue.learned") / WEIGHTS)))
