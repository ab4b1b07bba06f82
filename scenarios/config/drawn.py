"""Healthy setups that were drawn from a distribution and measured to train, by number: `setup=wild/17`.

The file beside this one holds them; `scenarios/datasets/wild` draws and measures them.
"""

import dataclasses
import json
import types
from collections.abc import Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config.settings import Setup, as_dict, check, leaves

KEY = "setup"  # of the override
FILE = Path(__file__).with_name("drawn_setups.json")
PREFIX = "wild/"


def drawn_setup(name: str) -> Setup:
    """The setup of a name such as `wild/17`. InputError for one that is not there."""
    found = drawn_setups().get(name)
    if found is None:
        raise InputError(
            f"{KEY}: {name!r} is not allowed; allowed: {PREFIX}NUMBER, {len(drawn_setups())} of {FILE.name}"
        )
    return found


def named(overrides: Iterable[str]) -> tuple[str | None, list[str]]:
    """The drawn setup that settings name, or None, and the other settings. InputError where they name two."""
    every = list(overrides)
    names = [text.partition("=")[2] for text in every if text.startswith(f"{KEY}=")]
    if len(names) > 1:
        raise InputError(f"setting: {KEY!r} is given twice; allowed: once")
    return next(iter(names), None), [text for text in every if not text.startswith(f"{KEY}=")]


@cache
def drawn_setups() -> dict[str, Setup]:
    """Every drawn setup by its name, in the order of their numbers."""
    return {
        f"{PREFIX}{row['number']}": setup_of(row["settings"])
        for row in json.loads(FILE.read_text(encoding="utf-8"))["setups"]
    }


def setup_of(settings: dict[str, Any]) -> Setup:
    """The default setup with settings by their dotted path, as JSON has them, replaced; checked."""
    setup: Setup = _replaced(Setup(), {path: _typed(path, value) for path, value in settings.items()})
    check(setup)
    return setup


def settings_of(setup: Setup) -> dict[str, Any]:
    """What a setup has other than the default one, as JSON: the inverse of `setup_of`."""
    usual = leaves(as_dict(Setup()))
    return {path: value for path, value in leaves(as_dict(setup)).items() if value != usual[path]}


def _replaced(node: Any, values: dict[str, Any]) -> Any:
    """A dataclass with the values below it replaced, all of a level at once: one alone may not be allowed."""
    parts: dict[str, Any] = {}
    for path, value in values.items():
        name, dot, rest = path.partition(".")
        if dot:
            parts.setdefault(name, {})[rest] = value
        else:
            parts[name] = value
    below = {name: _replaced(getattr(node, name), part) for name, part in parts.items() if isinstance(part, dict)}
    return dataclasses.replace(node, **(parts | below))


def _typed(path: str, value: Any) -> Any:
    """A JSON value as its field has it: a member of an enumeration by its value."""
    node: Any = Setup
    for name in path.split("."):
        node = get_type_hints(node)[name]
    for kind in get_args(node) if isinstance(node, types.UnionType) else (node,):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(value)
    return value
