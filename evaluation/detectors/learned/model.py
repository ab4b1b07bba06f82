"""A trained detector as a file: arrays of numbers and one piece of JSON, nothing that runs when it is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from trainwreck.evaluation.constants import UNKNOWN
from trainwreck.evaluation.detectors.learned.features import NAMES
from trainwreck.evaluation.detectors.learned.log_features import NAMES as LOG_NAMES
from trainwreck.evaluation.detectors.learned.trees import Forest, Trees, filled
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_arrays, write_arrays

VERSION = 1  # of the file, and of what the features mean
FORMAT, COMMAND = "trainwreck-learned", "trainwreck learn"
WEIGHTS = "weights.npz"

_TREES = ("roots", "feature", "threshold", "missing_left", "left", "right", "value")
_FOREST = ("roots", "feature", "threshold", "left", "right", "leaf", "cause", "share")


@dataclass(frozen=True)
class CauseHead:
    """Which causes a row of features looks like.

    sure: the probability that the likeliest cause must have, or the answer is `unknown`.
    """

    causes: tuple[str, ...]
    forest: Forest
    sure: float

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """Of each cause, [N, F] to [N, C]."""
        return self.forest.probabilities(filled(rows))

    def ranked(self, row: np.ndarray, most: int = 3) -> tuple[str, ...]:
        """The likeliest causes for a row of features, [F]; `unknown` first where none of them is likely enough."""
        likely = self.probabilities(row[None])[0]
        order = np.argsort(-likely, kind="stable")[:most]
        named = tuple(self.causes[i] for i in order)
        return named if likely[order[0]] >= self.sure else (UNKNOWN, *named)


@dataclass(frozen=True)
class LogTrees:
    """What judges a log that has a few signals only, by `log_features`; threshold and about as of `Model`."""

    trees: Trees
    threshold: float
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """What `trainwreck learn` makes. threshold: a score above it is an alarm; about: how it came to be.

    logs: None in files from before there were any; `trees` judge every run then.
    """

    trees: Trees
    head: CauseHead
    threshold: float
    about: Mapping[str, Any]
    logs: LogTrees | None = None

    @property
    def features(self) -> np.ndarray:
        """Positions of the features that it uses, sorted."""
        return np.unique(np.concatenate([self.trees.feature, self.head.forest.feature]))


def write_model(path: Path, model: Model) -> None:
    """Write it, atomically. The same model gives the same bytes."""
    used = model.features
    place = {int(feature): i for i, feature in enumerate(used)}

    def renamed(features: np.ndarray) -> np.ndarray:
        return np.array([place[int(feature)] for feature in features], dtype=np.uint16)

    facts = {
        "format": FORMAT,
        "version": VERSION,
        "features": [NAMES[i] for i in used],
        "causes": list(model.head.causes),
        "sure": model.head.sure,
        "threshold": model.threshold,
        "start": model.trees.start,
        "depth": model.trees.depth,
        "about": dict(model.about),
    }
    arrays = {name: getattr(model.trees, name) for name in _TREES} | {
        f"cause_{name}": getattr(model.head.forest, name) for name in _FOREST
    }
    for name in ("feature", "cause_feature"):
        arrays[name] = renamed(arrays[name])
    if logs := model.logs:
        arrays |= {f"log_{name}": getattr(logs.trees, name) for name in _TREES}
        facts["logs"] = {
            "features": list(LOG_NAMES),
            "threshold": logs.threshold,
            "start": logs.trees.start,
            "depth": logs.trees.depth,
            "about": dict(logs.about),
        }
    write_arrays(path, facts, arrays)


def read_model(path: Path) -> Model:
    """Read it. InputError that names a file which is missing, damaged or of another version."""
    facts, arrays = read_arrays(path, COMMAND)
    if facts.get("format") != FORMAT:
        raise InputError(f"{path}: not what `{COMMAND}` writes")
    place = {name: i for i, name in enumerate(NAMES)}
    other = facts.get("logs") and facts["logs"].get("features") != list(LOG_NAMES)
    if facts.get("version") != VERSION or not set(facts["features"]) <= place.keys() or other:
        raise InputError(f"{path}: version {facts.get('version')} is not allowed; allowed: {VERSION}; learn it again")
    try:
        used = np.array([place[name] for name in facts["features"]], dtype=np.int32)
        trees = {name: arrays[name] for name in _TREES}
        forest = {name: arrays[f"cause_{name}"] for name in _FOREST}
        trees["feature"], forest["feature"] = used[trees["feature"]], used[forest["feature"]]
        causes = tuple(facts["causes"])
        return Model(
            Trees(**trees, start=facts["start"], depth=facts["depth"]),
            CauseHead(causes, Forest(**forest, classes=len(causes)), facts["sure"]),
            facts["threshold"],
            facts["about"],
            _log_trees(arrays, facts.get("logs")),
        )
    except (KeyError, IndexError, TypeError):
        raise InputError(f"{path}: damaged, or not what `{COMMAND}` writes") from None


def _log_trees(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any] | None) -> LogTrees | None:
    if facts is None:
        return None
    trees = Trees(**{name: arrays[f"log_{name}"] for name in _TREES}, start=facts["start"], depth=facts["depth"])
    return LogTrees(trees, facts["threshold"], facts["about"])


def shipped() -> Path:
    """The weights that ship with the package."""
    return Path(str(files("trainwreck.evaluation.detectors.learned") / WEIGHTS))
