"""A detector by whatever name it is asked for: built in, of a file, of an installed package, or a command."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.detectors.plugins import plugin, plugins
from trainwreck.evaluation.detectors.registry import GROUP, builtin_detectors, is_builtin, load_detector
from trainwreck.evaluation.errors import InputError, printable, unknown
from trainwreck.evaluation.replay.sandbox.command import PREFIX, words_of
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.process import FailedError
from trainwreck.evaluation.replay.sandbox.remote import Remote

RUNNER = "trainwreck.evaluation.replay.sandbox.runner"


def open_detector(
    name: str, limits: Limits | None = None, settings: Mapping[str, Any] | None = None
) -> type[Detector] | Isolated:
    """A built-in detector's class, which runs in this process; any other in one of its own, loaded.

    name: built-in, "file.py:Class", of an installed plug-in, or "cmd:PROGRAM WORD ...". settings: keywords that a
    detector in a process of its own is made with. Raises InputError in one line for what is none of these, can't be
    loaded, or does not take the settings.
    """
    limits, settings = limits or Limits(), dict(settings or {})
    if name.startswith(PREFIX):
        if settings:
            key = next(iter(settings))
            raise InputError(f"detector {name}: a command takes no {key!r}; allowed: a word of the command")
        words = words_of(name)
        files = [word for word in words[1:] if Path(word).is_file()]
        return _loaded(Isolated(lambda: Remote(words, limits, files), limits), f"detector {name}")
    if ".py" in name:
        return _of_file(name, limits, settings)
    if is_builtin(name):
        return load_detector(name)
    installed = plugins()
    if name not in installed:
        raise unknown("detector", name, [*builtin_detectors(), *installed])
    entry = plugin(name, installed)
    what = {"name": entry.name, "settings": settings, "entry_point": [entry.value, GROUP]}
    return _loaded(Isolated(lambda: Remote(_runner(what), limits), limits), f"plug-in {name}")


def isolated_builtin(name: str, settings: Mapping[str, Any], limits: Limits | None = None) -> Isolated:
    """A built-in detector in a process of its own. settings: keywords that it is made with."""
    what = {"name": name, "settings": dict(settings)}
    chosen = limits or Limits()
    return _loaded(Isolated(lambda: Remote(_runner(what), chosen), chosen), f"detector {name}")


def _of_file(name: str, limits: Limits, settings: Mapping[str, Any]) -> Isolated:
    file, separator, class_name = name.rpartition(":")
    if not separator or not class_name.isidentifier() or not file.endswith(".py"):
        raise InputError(f"detector: {name!r} is not allowed; allowed: a built-in name or file.py:Class")
    if not Path(file).is_file():
        raise InputError(f"detector {file}: no such file")
    full = str(Path(file).absolute())
    what = {"name": f"{full}:{class_name}", "settings": dict(settings)}
    try:
        return _loaded(Isolated(lambda: Remote(_runner(what), limits, [full]), limits), f"detector {file}")
    except InputError as error:
        raise InputError(str(error).replace(full, file)) from None


def _runner(what: Mapping[str, Any]) -> list[str]:
    """The command that runs a Python detector. what: as `runner.Runner` takes it."""
    return [sys.executable, "-P", "-m", RUNNER, json.dumps(what)]


def _loaded(isolated: Isolated, where: str) -> Isolated:
    try:
        isolated.load()
    except FailedError as error:
        last = f"; it printed last: {error.printed[-1]}" if error.printed else ""
        raise InputError(printable(f"{where}: does not load ({error}{last})")) from None
    return isolated
