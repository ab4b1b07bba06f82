"""What a reader of the curves sees of a scenario: the shapes that its signature asks for."""

import ast
import inspect
from typing import Any

from trainwreck.scenarios import shapes
from trainwreck.scenarios.spec.proofs import unproven
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.scenario import Scenario
from trainwreck.scenarios.views.page import injected

# What shapes are made with; none is a shape itself.
PARTS = ("smooth", "turning_point", "agreement")


def catalogue_facts() -> dict[str, Any]:
    """Fields of the gallery's `Catalogue`: what it says of scenarios besides what a data set's own catalogue has."""
    entries = scenarios()
    return {
        "symptoms": {name: symptoms(entry) for name, entry in entries.items()},
        "imitates": {name: entry.imitates for name, entry in entries.items() if entry.imitates},
        "shapes": {name: (line, picture(name)) for name, line in vocabulary().items()},
        "unproven": unproven(),
        "injected": {name: injected(name) for name in entries},
    }


def symptoms(entry: Scenario) -> list[str]:
    """Names of the functions of `evaluation.shapes` in the signature's file, in the order of that module.

    A look-alike without a signature has those of the failures that it imitates.
    """
    if not entry.has_signature:
        found = {name for other in entry.imitates for name in symptoms(scenario(other))}
    else:
        found = _asked_for(entry)
    return [name for name in vocabulary() if name in found]


def vocabulary() -> dict[str, str]:
    """Every shape by name, with the first line of what it says of itself."""
    functions = inspect.getmembers(shapes, inspect.isfunction)
    own = [(name, f) for name, f in functions if f.__module__ == shapes.__name__ and not name.startswith("_")]
    own.sort(key=lambda pair: pair[1].__code__.co_firstlineno)
    return {name: inspect.cleandoc(f.__doc__ or "").splitlines()[0] for name, f in own if name not in PARTS}


def _asked_for(entry: Scenario) -> set[str]:
    module = inspect.getmodule(type(entry))
    assert module is not None
    used = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "shapes":
            used.add(node.attr)
        if isinstance(node, ast.ImportFrom) and node.module == shapes.__name__:
            used |= {name.name for name in node.names}
    return used - set(PARTS)


def picture(name: str) -> str:
    """The picture in characters that a shape's docstring has; empty without one."""
    lines = inspect.cleandoc(getattr(shapes, name).__doc__ or "").splitlines()[1:]
    drawn = [line for line in lines if not line or not line[0].isalpha()]
    return "\n".join(drawn).strip("\n")
