"""Trainwreck: labelled transformer-training failures on demand, and a benchmark of failure detectors.

    >>> import trainwreck
    >>> "high_lr" in trainwreck.scenarios()
    True

`__all__` has every public name; docs/api.md has a sentence and an example of each. A name is imported when it is first
used, so that the command line starts fast; loading and scoring data sets never needs torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwreck.api.catalogue import bench, catalogue, detectors, doctor, preflight, reproducer, show, verify
    from trainwreck.api.data import demo, diff, export, generate, label, release, reproduce, stability
    from trainwreck.api.logs import diagnose, import_logs
    from trainwreck.api.pages import gallery, quiz, report
    from trainwreck.api.scores import (
        audit,
        compare,
        confirm,
        equivalence,
        leaderboard,
        learn,
        rescore,
        submit,
        transfer,
    )
    from trainwreck.dataset import DataSet, load
    from trainwreck.evaluation.dataset.sample import sample
    from trainwreck.evaluation.detectors.base import Detector, Verdict
    from trainwreck.evaluation.errors import InputError
    from trainwreck.evaluation.leaderboard.run import Leaderboard, Scorecard, score
    from trainwreck.evaluation.live.lightning import lightning_callback
    from trainwreck.evaluation.live.monitor import Alarm, Monitor
    from trainwreck.evaluation.live.transformers import transformers_callback
    from trainwreck.module_signals import ModuleSignals
    from trainwreck.pictures import figure
    from trainwreck.scenarios.preflight import Preflight
    from trainwreck.scenarios.spec.scenario import Scenario
    from trainwreck.scenarios.views.session import Experiment, run

__all__ = [
    "Alarm",
    "DataSet",
    "Detector",
    "Experiment",
    "InputError",
    "Leaderboard",
    "ModuleSignals",
    "Monitor",
    "Preflight",
    "Scenario",
    "Scorecard",
    "Verdict",
    "audit",
    "bench",
    "catalogue",
    "compare",
    "confirm",
    "demo",
    "detectors",
    "diagnose",
    "diff",
    "doctor",
    "equivalence",
    "export",
    "figure",
    "gallery",
    "generate",
    "import_logs",
    "label",
    "leaderboard",
    "learn",
    "lightning_callback",
    "load",
    "preflight",
    "quiz",
    "release",
    "report",
    "reproduce",
    "reproducer",
    "rescore",
    "run",
    "sample",
    "scenarios",
    "score",
    "show",
    "stability",
    "submit",
    "transfer",
    "transformers_callback",
    "verify",
]

_HOMES = {
    "bench": "api.catalogue",
    "catalogue": "api.catalogue",
    "detectors": "api.catalogue",
    "doctor": "api.catalogue",
    "preflight": "api.catalogue",
    "reproducer": "api.catalogue",
    "show": "api.catalogue",
    "verify": "api.catalogue",
    "demo": "api.data",
    "diff": "api.data",
    "export": "api.data",
    "generate": "api.data",
    "label": "api.data",
    "release": "api.data",
    "reproduce": "api.data",
    "stability": "api.data",
    "diagnose": "api.logs",
    "import_logs": "api.logs",
    "gallery": "api.pages",
    "quiz": "api.pages",
    "report": "api.pages",
    "audit": "api.scores",
    "compare": "api.scores",
    "confirm": "api.scores",
    "equivalence": "api.scores",
    "leaderboard": "api.scores",
    "learn": "api.scores",
    "rescore": "api.scores",
    "submit": "api.scores",
    "transfer": "api.scores",
    "DataSet": "dataset",
    "load": "dataset",
    "sample": "evaluation.dataset.sample",
    "Detector": "evaluation.detectors.base",
    "Verdict": "evaluation.detectors.base",
    "InputError": "evaluation.errors",
    "Leaderboard": "evaluation.leaderboard.run",
    "Scorecard": "evaluation.leaderboard.run",
    "score": "evaluation.leaderboard.run",
    "lightning_callback": "evaluation.live.lightning",
    "Alarm": "evaluation.live.monitor",
    "Monitor": "evaluation.live.monitor",
    "transformers_callback": "evaluation.live.transformers",
    "ModuleSignals": "module_signals",
    "figure": "pictures",
    "Preflight": "scenarios.preflight",
    "Scenario": "scenarios.spec.scenario",
    "Experiment": "scenarios.views.session",
    "run": "scenarios.views.session",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"trainwreck.{_HOMES[name]}"), name)
        if not isinstance(found, type):  # a function, whose arguments are checked as those of the command line are
            from trainwreck.arguments import checked

            found = globals()[name] = checked(found)
            found.__module__ = __name__  # where pickle finds it
        return found
    if name == "scenarios":  # the catalogue, and the package of that name: see its docstring
        return import_module("trainwreck.scenarios")
    raise AttributeError(f"module 'trainwreck' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
