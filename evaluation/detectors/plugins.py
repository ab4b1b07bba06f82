"""Detectors of installed packages: entry points of the group `trainwreck.detectors`, name = "package.module:Class".

Listing them imports none of them, so that a broken one fails only where it is requested.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from trainwreck.evaluation.detectors.registry import GROUP, is_builtin
from trainwreck.evaluation.errors import InputError


def plugins(group: str = GROUP) -> dict[str, list[EntryPoint]]:
    """Entry points of a group by name, sorted, and by "distribution:name", which nobody can take from another."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, _home(entry))):
        found.setdefault(entry.name, []).append(entry)
        found.setdefault(f"{_home(entry)}:{entry.name}", []).append(entry)
    return found


def plugin(name: str, known: dict[str, list[EntryPoint]], what: str = "detector") -> EntryPoint:
    """The one of a name that is known. what: it is, for errors. Raises InputError where several packages have it."""
    first, *others = known[name]
    if others:
        full = [f"{_home(entry)}:{entry.name}" for entry in known[name]]
        raise InputError(f"{what}: {name!r} is not allowed, several packages have it; allowed: {', '.join(full)}")
    return first


def clashes(names: Iterable[str]) -> list[str]:
    """One line for each plug-in that has a name of these and of a built-in detector, which keeps it."""
    installed = plugins()
    return [
        f"{name!r} is the built-in detector; the plug-in of that name is {_home(entry)}:{name}"
        for name in names
        if name in installed and is_builtin(name)
        for entry in installed[name]
    ]


def _home(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "?"
