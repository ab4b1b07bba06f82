"""The vocabulary of curves as a page: each shape with its picture, and the scenarios whose signature uses it."""

import inspect
import re
from functools import cache

from words import escaped, link

from trainwreck.scenarios import shapes
from trainwreck.scenarios.spec.registry import scenarios

PAGE = "vocabulary.md"
PICTURE = re.compile(r"^(?: {2,}|[|0-9])")  # a line of a drawing: it is set in, or begins at an axis


def names() -> list[str]:
    """Public functions of `shapes`, in the order of the file."""
    own = [f for f in vars(shapes).values() if inspect.isfunction(f) and f.__module__ == shapes.__name__]
    return [f.__name__ for f in own if not f.__name__.startswith("_")]


@cache
def used_by(id: str) -> tuple[str, ...]:
    """The shapes that a scenario's signature uses, by its source."""
    signature = inspect.getsource(type(scenarios()[id]).signature)
    return tuple(name for name in names() if re.search(rf"\bshapes\.{name}\b", signature))


def words_of(id: str, page: str) -> str:
    """A line for a scenario's page: its shapes, linked."""
    links = [link(f"`{name}`", f"{PAGE}#{name}", page) for name in used_by(id)]
    return f"Shapes of the vocabulary: {', '.join(links)}.\n" if links else ""


def page() -> str:
    """The page."""
    from catalogue import path_of

    parts = [f"# The vocabulary of curves\n\n{escaped(inspect.getdoc(shapes) or '')}\n"]
    for name in names():
        function = getattr(shapes, name)
        users = [link(f"`{id}`", path_of(id), PAGE) for id in scenarios() if name in used_by(id)]
        parts.append(f"## {name} {{ #{name} }}\n\n{body(inspect.getdoc(function) or '')}\n")
        parts.append(f"```python\n{name}{inspect.signature(function)}\n```\n")
        if users:
            parts.append(f"Used by {', '.join(users)}.\n")
    return "\n".join(parts)


def body(doc: str) -> str:
    """A docstring with its drawing in a fence."""
    made, drawing = [], False
    for line in [*doc.splitlines(), ""]:
        is_drawn = bool(PICTURE.match(line))
        if is_drawn != drawing:
            made.append("```text" if is_drawn else "```")
            drawing = is_drawn
        made.append(line if is_drawn else escaped(line))
    return "\n".join(made).rstrip()
