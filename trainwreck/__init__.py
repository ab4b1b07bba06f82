"""Trainwreck: labelled transformer-training failures on demand, and the scoreboard for detectors.

    >>> import trainwreck
    >>> "high_lr" in trainwreck.scenarios()
    True

Every name is imported when it is first asked for, so that the command line starts at once; loading
and scoring data sets never needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset import DataSet, load
    from trainwreck.evaluation.errors import InputError
    from trainwreck.evaluation.protocol import Detector, Verdict
    from trainwreck.evaluation.scorecard import Scorecard, leaderboard, score
    from trainwreck.evaluation.shipped import sample
    from trainwreck.scenarios.preflight import Preflight

__all__ = [
    "DataSet",
    "Detector",
    "InputError",
    "Preflight",
    "Scorecard",
    "Verdict",
    "leaderboard",
    "load",
    "sample",
    "scenarios",
    "score",
]

_HOMES = {
    "DataSet": "evaluation.dataset",
    "load": "evaluation.dataset",
    "InputError": "evaluation.errors",
    "Detector": "evaluation.protocol",
    "Verdict": "evaluation.protocol",
    "Preflight": "scenarios.preflight",
    "Scorecard": "evaluation.scorecard",
    "leaderboard": "evaluation.scorecard",
    "score": "evaluation.scorecard",
    "sample": "evaluation.shipped",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"trainwreck.{_HOMES[name]}"), name)
    if name == "scenarios":  # the catalogue, and the package of that name: see its docstring
        return import_module("trainwreck.scenarios")
    raise AttributeError(f"module 'trainwreck' has no attribute {name!r}")
