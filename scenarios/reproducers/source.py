"""Functions of a scenario as plain source: annotations off, what surrounds them put in, what they call taken along.

A fault is written once, in its scenario. Its text is edited in place, so that it keeps its lines and comments.
"""

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from trainwreck.evaluation.dataset.schema import BY_NAME
from trainwreck.models.config import ModelConfig
from trainwreck.models.parameters import Slot, layout
from trainwreck.scenarios import shapes
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.data.batch import Batch
from trainwreck.scenarios.data.batches import validation
from trainwreck.scenarios.data.sources.language import Language, LanguageSpec
from trainwreck.scenarios.reproducers.syntax import (
    OF_A_RUN,
    Edit,
    applied,
    chain,
    definition,
    edited,
    fixed_text,
    literal,
    of_a_run,
    own_names,
    replacing,
    shorter_docstring,
    slot_of,
    span,
    surroundings,
    without_annotations,
    without_line,
)
from trainwreck.scenarios.reproducers.values import NotPlainError, name_of, settings
from trainwreck.scenarios.spec.scenario import Scenario

# Functions and classes that the plain program has under the same name.
KNOWN = {
    "Batch", "at_the_mean", "counting", "cut", "from_rows", "generator", "learning_rate", "pool", "projections",
    "refilled", "replaced", "sample", "taken", "training_batch", "validation",
}  # fmt: skip
# Modules whose functions can be taken along.
OWN = ("trainwreck.scenarios.catalogue", "trainwreck.scenarios.shapes", "trainwreck.scenarios.spec.planned")
# Functions that are shorter where numbers are few and warnings are not suppressed.
SHORTER = {
    "smooth": """\
def smooth(y, window=10):  # trailing mean; infinite where a value in it is not finite
    parts = [y[max(0, i - window + 1) : i + 1].astype(np.float64) for i in range(len(y))]
    return np.array([part.mean() if np.isfinite(part).all() else np.inf for part in parts])
""",
    "jumps_in_one_step": """\
def jumps_in_one_step(y, onset, ratio, before=20, after=5):
    level, now = np.median(y[max(0, onset - before) : onset]), y[onset : onset + after]
    return bool(np.mean(np.where(np.isfinite(now), now, np.inf)) > ratio * level)
""",
    "plateaus_above": """\
def plateaus_above(y, reference, margin, share=0.25):
    n = min(len(y), len(reference))
    gap = smooth(y)[:n] - smooth(reference)[:n]
    return bool((gap[int(n * (1 - share)) :] > margin).all())
""",
    "_over_steps": """\
def _over_steps(statistic, values):  # [K] of values [S, K]
    return np.asarray(statistic(values, axis=0))
""",
    "_gap": """\
def _gap(y, reference, start, stop):
    now, usual = y[start:stop], reference[start:stop]
    return now.mean() - usual.mean() if np.isfinite(now).all() else np.inf
""",
}


@dataclass
class Harvest:
    """What has been taken along so far. base: the healthy setup, HEALTHY in the plain program.

    functions and constants: name to text, in the order in which they are needed. known: names of the plain
    program that they use. signals: those that they read of a run. languages: of their own, by name.
    """

    base: Setup
    entry: Scenario
    functions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    signals: set[str] = field(default_factory=set)
    languages: dict[str, LanguageSpec] = field(default_factory=dict)

    def function(self, function: Callable[..., Any], surrounding: dict[str, Any] | None = None) -> str:
        """Take a function along; its name. surrounding: values of names that it does not know itself."""
        function = inspect.unwrap(function)
        node, text = definition(function)
        if isinstance(node, ast.Lambda):
            raise NotPlainError("reproducer: a lambda can't be taken along by name")
        if node.name in SHORTER and function.__module__ == shapes.__name__:
            if node.name == "plateaus_above":  # it asks this one
                self.function(shapes.smooth)
            self.functions[node.name] = SHORTER[node.name]
            return str(node.name)
        edits = self._edits(node, surroundings(function) | (surrounding or {}), text)
        plain, name = applied(text, node, edits), str(node.name)
        while self.functions.get(name, plain) != plain:  # another one of this name
            name, plain = f"{name}_again", plain.replace(f"def {name}(", f"def {name}_again(", 1)
        self.functions.setdefault(name, plain)  # after what it calls
        return name

    def call(self, function: Callable[..., Any], *arguments: str) -> str:
        """The expression that calls a function: of a lambda, what it returns."""
        node, text = definition(function)
        if not isinstance(node, ast.Lambda):
            return f"{self.function(function)}({', '.join(arguments)})"
        meaning = dict(zip([a.arg for a in node.args.args], arguments, strict=True))
        edits = self._edits(node.body, surroundings(function), text, set(meaning))
        names = [part for part in ast.walk(node.body) if isinstance(part, ast.Name) and part.id in meaning]
        edits += [(*span(part, text), meaning[part.id]) for part in names]  # inner ones give way
        start, stop = span(node.body, text)
        return " ".join(edited(text, start, stop, edits).split())

    def uses(self, function: Callable[..., Any], argument: int) -> bool:
        """Whether a function looks at its argument of this number."""
        node, _ = definition(function)
        name = node.args.args[argument].arg
        body = node.body if isinstance(node.body, list) else [node.body]
        return any(isinstance(n, ast.Name) and n.id == name for part in body for n in ast.walk(part))

    def _edits(self, node: ast.AST, known: dict[str, Any], text: str, arguments: set[str] | None = None) -> list[Edit]:
        """What changes in the text of a function or of a lambda with these arguments."""
        edits: list[Edit] = []
        local = (own_names(node) | (arguments or set())) - {"self"}
        done = [
            span(a, text)
            for n in ast.walk(node)
            if (a := getattr(n, "annotation", None) or getattr(n, "returns", None))
        ]

        def put(part: ast.AST, new: str) -> None:
            place = span(part, text)
            if not any(a <= place[0] and place[1] <= b for a, b in done):
                done.append(place)
                edits.append((*place, new))

        for part in ast.walk(node):  # outer nodes come first
            if hasattr(part, "lineno") and any(a <= span(part, text)[0] and span(part, text)[1] <= b for a, b in done):
                continue
            if isinstance(part, ast.Import):  # the plain program has it at its top
                edits.append(without_line(part, text))
            elif isinstance(part, (ast.FunctionDef, ast.AnnAssign)):
                edits += without_annotations(part, text)
                if isinstance(part, ast.FunctionDef):
                    edits += shorter_docstring(part, text)
            elif isinstance(part, ast.Subscript) and (slot := slot_of(part, known, local)):
                self.known.add("PLACES")
                done.append(span(part.slice, text))
                edits.append((*span(part.slice, text), f'PLACES["{slot}"]'))
            elif isinstance(part, ast.JoinedStr):
                made = fixed_text(part, known, local)
                put(part, text[slice(*span(part, text))] if made is None else literal(made))
            elif isinstance(part, ast.Call):
                if new := of_a_run(part, local):
                    put(part, new)
                edits += self._of_a_plan(part, text) + replacing(part, text)
            elif isinstance(part, ast.Attribute):
                new = self._attribute(part, known, local)
                if new is not None:
                    put(part, new)
            elif isinstance(part, ast.Name) and part.id in known and part.id not in local:
                new = self._value(known[part.id], part.id)
                if new != part.id:
                    put(part, new)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in BY_NAME:
                self.signals.add(part.value)
        return edits

    def _of_a_plan(self, part: ast.Call, text: str) -> list[Edit]:
        """plan.places(name) is where(plan, name), and plan.size is not passed."""
        edits: list[Edit] = []
        if isinstance(part.func, ast.Attribute) and chain(part.func) == ("plan", ["places"]):
            self.known.add("where")
            edits.append((span(part.func, text)[0], span(part.args[0], text)[0], "where(plan, "))
        last = part.args[-1] if part.args else None
        if isinstance(last, ast.Attribute) and chain(last) == ("plan", ["size"]):
            edits.append((span(part.args[-2], text)[1], span(last, text)[1], ""))
        return edits

    def _attribute(self, part: ast.Attribute, known: dict[str, Any], local: set[str]) -> str | None:
        """What stands for a chain of attributes; None to look at what it begins with."""
        root, path = chain(part)
        if root is None:
            return None
        if root in local:
            if path[0] in OF_A_RUN and len(path) == 1:
                self.known.add(path[0])
                return OF_A_RUN[path[0]].format(run=root)
            if root == "setup" and len(path) == 2:
                return f"setup.{name_of('.'.join(path))}"
            return None
        if root not in known:
            return None
        value = known[root]
        if isinstance(value, ModuleType) and not value.__name__.startswith("trainwreck"):
            return None
        for i, name in enumerate(path):
            if isinstance(value, Batch):
                return ".".join([self._value(value, name), *path[i:]])
            value = getattr(value, name)
        return self._value(value, path[-1])

    def _value(self, value: Any, name: str) -> str:
        """The text that stands for a value that is called `name` where it is used."""
        if isinstance(value, ModuleType):
            return name
        if isinstance(value, (type(None), bool, int, float, str)):
            if name.isupper():
                self.constants.setdefault(name, literal(value))
                return name
            return literal(value)
        if isinstance(value, Enum):
            return literal(value.value)
        if getattr(value, "__name__", None) in KNOWN:
            self.known.add(value.__name__)
            return str(value.__name__)
        if isinstance(value, FunctionType):
            if not value.__module__.startswith(OWN):
                raise NotPlainError(f"reproducer: {value.__module__}.{value.__name__} is not in the plain program")
            return self.function(value)
        if isinstance(value, Setup):
            return self._setup(value, name)
        if isinstance(value, Slot):
            self.known.add("PLACES")
            return f'PLACES["{value.name}"]'
        if isinstance(value, list) and value and all(isinstance(item, Slot) for item in value):
            self.known.add("PLACES")
            return "[" + ", ".join(f'PLACES["{slot.name}"]' for slot in value) + "]"
        if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) < 65 and value.dtype == np.int64:
            plain = [int(x) for x in value]
            even = plain == list(range(plain[0], plain[0] + len(plain)))
            return f"np.arange({plain[0]}, {plain[-1] + 1})" if even else self._constant(name, f"np.array({plain})")
        if isinstance(value, torch.Tensor) and value.dtype == torch.int64:
            return self._indices(value, name)
        if isinstance(value, Language):
            self.languages[name] = value.spec
            return f'"{name}", {value.spec.seed}'
        if isinstance(value, ModelConfig):
            return "HEALTHY"
        if isinstance(value, Batch) and np.array_equal(value.inputs, validation(self.base)[0].inputs):
            self.known.add("validation")
            return "validation(HEALTHY)"
        if isinstance(value, type) or name in dir(builtins):
            return name
        raise NotPlainError(f"reproducer: {name!r}, a {type(value).__name__}, can't be written as plain source")

    def _constant(self, name: str, text: str) -> str:
        """A value under a name in capitals."""
        self.constants[name.upper()] = text
        return name.upper()

    def _setup(self, setup: Setup, name: str) -> str:
        mine, usual = settings(setup), settings(self.base)
        other = {key: value for key, value in mine.items() if value != usual[key]}
        if not other:
            return "HEALTHY"
        return self._constant(name, f"SimpleNamespace(**{{**vars(HEALTHY), **{literal(other)}}})")

    def _indices(self, places: torch.Tensor, name: str) -> str:
        """Indices into the weights, as a stretch of whole parameters or as what they are."""
        flat = places.flatten()
        slots = layout(self.base.model).slots
        first = [s.name for s in slots if s.start == int(flat[0])]
        last = [s.name for s in slots if s.stop == int(flat[-1]) + 1]
        whole = torch.equal(flat, torch.arange(len(flat)) + flat[0])
        if whole and first and last:
            self.known.add("PLACES")
            part = first[0].split(".")[0]
            return self._constant(part, f'slice(PLACES["{first[0]}"].start, PLACES["{last[0]}"].stop)')
        if places.numel() < 65:
            return self._constant(name, f"torch.tensor({places.tolist()})")
        raise NotPlainError("reproducer: so many places can't be written as plain source")
