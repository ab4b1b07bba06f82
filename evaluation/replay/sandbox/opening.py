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
    words = python_command(RUNNER, what)
    return _loaded(Isolated(lambda: Remote(words, limits), limits), f"plug-in {name}")


def isolated_builtin(name: str, settings: Mapping[str, Any], limits: Limits | None = None) -> Isolated:
    """A built-in detector in a process of its own. settings: keywords that it is made with."""
    what = {"name": name, "settings": dict(settings)}
    chosen, words = limits or Limits(), python_command(RUNNER, what)
    return _loaded(Isolated(lambda: Remote(words, chosen), chosen), f"detector {name}")


def class_in_file(name: str, what: str = "detector") -> tuple[str, str]:
    """File and class of "file.py:Class". what: it is, for errors. Raises InputError for another form, and no file."""
    file, separator, class_name = name.rpartition(":")
    if not separator or not class_name.isidentifier() or not file.endswith(".py"):
        raise InputError(f"{what}: {name!r} is not allowed; allowed: a built-in name or file.py:Class")
    if not Path(file).is_file():
        raise InputError(f"{what} {file}: no such file")
    return file, class_name


def python_command(runner: str, what: Mapping[str, Any]) -> list[str]:
    """The command that runs a Python class. runner: module. what: as `runner.Runner` takes it."""
    return [sys.executable, "-P", "-m", runner, json.dumps(what)]


def _of_file(name: str, limits: Limits, settings: Mapping[str, Any]) -> Isolated:
    file, class_name = class_in_file(name)
    full = str(Path(file).absolute())
    words = python_command(RUNNER, {"name": f"{full}:{class_name}", "settings": dict(settings)})
    try:
        return _loaded(Isolated(lambda: Remote(words, limits, [full]), limits), f"detector {file}")
    except InputError as error:
        raise InputError(str(error).replace(full, file)) from None


def does_not_load(where: str, error: FailedError) -> InputError:
    """The error for a process that could not begin. where: what the message begins with."""
    last = f"; it printed last: {error.printed[-1]}" if error.printed else ""
    return InputError(printable(f"{where}: does not load ({error}{last})"))


def _loaded(isolated: Isolated, where: str) -> Isolated:
    try:
        isolated.load()
    except FailedError as error:
        raise does_not_load(where, error) from None
    return isolated
