"""Every setting of a run as a page: name, default, type and range, from the dataclasses that hold them."""

import dataclasses
import inspect
from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_type_hints

from words import escaped, table

from trainwreck.scenarios.config.settings import ALIGNED, MULTIPLE, RANGES, Setup, get, leaves
from trainwreck.scenarios.config.sizes import Size, healthy

PAGE = "settings.md"
INTRODUCTION = """# Settings

Every setting of a run, for `trainwreck run ID KEY=VALUE`, `verify`, and the sweeps of `generate`. The defaults are
those of the size `micro`; a scenario changes some of them, and `trainwreck show ID` lists which. A key `fault.NAME` is
a knob of the scenario's fault, on its page. `--text FILE` sets `data.source`, `data.text` and `model.vocab_size`.
"""


def groups(cls: type = Setup, prefix: str = "") -> Iterator[tuple[str, type]]:
    """The dataclasses with the path of each, the outermost first."""
    yield prefix, cls
    for name, kind in get_type_hints(cls).items():
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from groups(kind, f"{prefix}{name}.")


def page() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for prefix, cls in groups():
        parts.append(f"## {prefix.rstrip('.') or 'The run'}\n\n{escaped(inspect.getdoc(cls) or '')}\n")
        parts.append(table(("setting", "default", "allowed"), rows(prefix, cls)))
    parts.append(f"## Sizes\n\n{table(('setting', *(size.value for size in Size)), sizes())}")
    return "\n".join(parts)


def rows(prefix: str, cls: type) -> list[tuple[str, str, str]]:
    """The settings of one dataclass, without the groups in it."""
    setup = healthy(Size.MICRO)
    return [
        (f"`{prefix}{name}`", f"`{shown(get(setup, prefix + name))}`", allowed(prefix + name, kind))
        for name, kind in get_type_hints(cls).items()
        if not dataclasses.is_dataclass(kind)
    ]


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value) or "''"


def allowed(path: str, kind: Any) -> str:
    """What a setting may be, in words."""
    parts = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if isinstance(parts[0], type) and issubclass(parts[0], Enum):
        return ", ".join(f"`{member.value}`" for member in parts[0])
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[parts[0]]
    if path in RANGES:
        low, high, inclusive = RANGES[path]
        words += f", {'' if inclusive else 'over '}{low:g} to {high:g}"
    elif parts[0] is int:
        words += ", 1 or more"
    if path in ALIGNED:
        words += f", a multiple of {MULTIPLE}"
    return words + (", or null" if type(None) in parts else "")


def sizes() -> list[tuple[str, ...]]:
    """The settings in which the sizes differ."""
    columns = [leaves(healthy(size)) for size in Size]
    differ = [path for path in columns[0] if len({repr(column[path]) for column in columns}) > 1]
    return [(f"`{path}`", *(f"`{shown(column[path])}`" for column in columns)) for path in differ]


if __name__ == "__main__":
    print(page())
