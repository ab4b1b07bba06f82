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
    from trainwreck.evaluation.dataset.dataset import DataSet, load
    from trainwreck.evaluation.dataset.sample import sample
    from trainwreck.evaluation.detectors.base import Detector, Verdict
    from trainwreck.evaluation.errors import InputError
    from trainwreck.evaluation.leaderboard.run import Scorecard, leaderboard, score
    from trainwreck.evaluation.live.lightning import lightning_callback
    from trainwreck.evaluation.live.monitor import Alarm, Monitor
    from trainwreck.evaluation.live.transformers import transformers_callback
    from trainwreck.module_signals import ModuleSignals
    from trainwreck.scenarios.preflight import Preflight
    from trainwreck.scenarios.views.experiment import Experiment, run

__all__ = [
    "Alarm",
    "DataSet",
    "Detector",
    "Experiment",
    "InputError",
    "ModuleSignals",
    "Monitor",
    "Preflight",
    "Scorecard",
    "Verdict",
    "leaderboard",
    "lightning_callback",
    "load",
    "run",
    "sample",
    "scenarios",
    "score",
    "transformers_callback",
]

_HOMES = {
    "DataSet": "evaluation.dataset",
    "load": "evaluation.dataset",
    "InputError": "evaluation.errors",
    "lightning_callback": "evaluation.monitoring.lightning",
    "Alarm": "evaluation.monitoring.monitor",
    "Monitor": "evaluation.monitoring.monitor",
    "transformers_callback": "evaluation.monitoring.transformers",
    "Detector": "evaluation.protocol",
    "Verdict": "evaluation.protocol",
    "Experiment": "scenarios.experiment",
    "run": "scenarios.experiment",
    "ModuleSignals": "module_signals",
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
