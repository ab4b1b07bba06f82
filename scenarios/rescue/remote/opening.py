"""A policy of others by the name it is asked for: of a file, of an installed package, or a command."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from trainwreck.evaluation.detectors.plugins import plugin, plugins
from trainwreck.evaluation.detectors.registry import AllowedCauses
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.sandbox.command import PREFIX, shown, words_of
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import class_in_file, does_not_load, python_command
from trainwreck.evaluation.replay.sandbox.process import FailedError
from trainwreck.scenarios.rescue.remote.player import ConfinedPolicy, RemotePolicy
from trainwreck.scenarios.spec.registry import scenarios

GROUP = "trainwreck.policies"  # entry points of installed packages
RUNNER = "trainwreck.scenarios.rescue.remote.runner"


def open_policy(name: str, limits: Limits | None = None, known: Sequence[str] = ()) -> ConfinedPolicy:
    """A policy of others, loaded in a confined process.

    name: "file.py:Class", of an installed plug-in, or "cmd:PROGRAM WORD ...". known: built-in names, for the error.
    Raises InputError in one line for what is none of these or can't be loaded.
    """
    limits = limits or Limits()
    if name.startswith(PREFIX):
        words = words_of(name, "policy")
        files = [word for word in words[1:] if Path(word).is_file()]
        return _loaded(shown(name, "policy"), partial(RemotePolicy, words, limits, files), limits, f"policy {name}")
    if ".py" in name:
        file, class_name = class_in_file(name, "policy")
        full = str(Path(file).absolute())
        words = python_command(RUNNER, {"name": f"{full}:{class_name}"})
        begin = partial(RemotePolicy, words, limits, [full])
        try:
            return _loaded(f"{Path(file).name}:{class_name}", begin, limits, f"policy {file}")
        except InputError as error:
            raise InputError(str(error).replace(full, file)) from None
    installed = plugins(GROUP)
    if name not in installed:
        raise unknown("policy", name, [*known, *installed])
    entry = plugin(name, installed, "policy")
    words = python_command(RUNNER, {"name": entry.name, "entry_point": [entry.value, GROUP]})
    return _loaded(name, partial(RemotePolicy, words, limits), limits, f"plug-in {name}")


def _loaded(name: str, begin: Callable[[], RemotePolicy], limits: Limits, where: str) -> ConfinedPolicy:
    policy = ConfinedPolicy(name, begin, limits, AllowedCauses(tuple(scenarios())))
    try:
        policy.load()
    except FailedError as error:
        raise does_not_load(where, error) from None
    return policy
