"""Source text of functions, edited in place by what their syntax trees say. Sources are ASCII."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from trainwreck.models.parameters import Slot
from trainwreck.scenarios.reproducers.values import NotPlainError

WIDTH = 120
Edit = tuple[int, int, str]  # from and to this place of the text, the new text
# What is asked of a `Trace`, and how it is asked of a dict of signals.
OF_A_RUN = {
    "evaluations": "evaluations({run})",
    "evaluated": '~np.isnan({run}["validation_loss"])',
    "final_loss": '{run}["validation_loss"][-1]',
    "finite": 'np.isfinite({run}["loss"]).all()',
}


def literal(value: Any) -> str:
    """A value as source, with the quotes that the plain program has."""
    return repr(value).replace("'", '"')


def surroundings(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function finds around it, by name."""
    found = inspect.getclosurevars(function)
    inner = _inner_globals(function.__code__, function.__globals__)
    return inner | dict(found.globals) | dict(found.nonlocals)


def _inner_globals(code: CodeType, around: dict[str, Any]) -> dict[str, Any]:
    """Globals that functions within a function use."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= set(_inner_globals(constant, around))
    return {name: around[name] for name in names if name in around}


@cache
def _parsed(file: str) -> tuple[ast.Module, str]:
    text = Path(file).read_text(encoding="utf-8")
    return ast.parse(text), text


def definition(function: Callable[..., Any]) -> tuple[Any, str]:
    """The definition of a function, and the text of its file."""
    code = function.__code__
    tree, text = _parsed(code.co_filename)
    wanted = code.co_varnames[: code.co_argcount]
    found = [
        n
        for n in ast.walk(tree)
        if isinstance(n, (ast.FunctionDef, ast.Lambda))
        and n.lineno == code.co_firstlineno
        and tuple(a.arg for a in n.args.args) == wanted
        and isinstance(n, ast.Lambda) == (code.co_name == "<lambda>")
    ]
    if len(found) != 1:
        raise NotPlainError(f"reproducer: {code.co_name} in line {code.co_firstlineno} can't be told from others")
    return found[0], text


def own_names(node: ast.AST) -> set[str]:
    """Names that a function, or one within it, gives to something."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            found.add(part.arg)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.FunctionDef):
            found.add(part.name)
    return found


def chain(part: ast.Attribute) -> tuple[str | None, list[str]]:
    """The name that a.b.c begins with, None where it is no name, and what follows it."""
    path: list[str] = []
    node: ast.expr = part
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return (node.id, path) if isinstance(node, ast.Name) else (None, path)


def slot_of(part: ast.Subscript, known: dict[str, Any], local: set[str]) -> str | None:
    """The parameter of x[slot.start : slot.stop]."""
    if not (isinstance(part.slice, ast.Slice) and isinstance(part.slice.lower, ast.Attribute)):
        return None
    root, path = chain(part.slice.lower)
    if root is None or root in local or path != ["start"] or not isinstance(known.get(root), Slot):
        return None
    return str(known[root].name)


def of_a_run(part: ast.Call, local: set[str]) -> str | None:
    """What a call of a trace's method, or its length, is of a dict of signals."""
    if isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name):
        root, name = part.func.value.id, part.func.attr
        if root in local and name in ("final_loss", "finite") and not part.args:
            return OF_A_RUN[name].format(run=root)
    if isinstance(part.func, ast.Name) and part.func.id == "len" and isinstance(part.args[0], ast.Name):
        name = part.args[0].id
        return f'len({name}["loss"])' if name in ("run", "healthy", "trace") else None
    return None


def replacing(part: ast.Call, text: str) -> list[Edit]:
    """dataclasses.replace(batch, ...) is batch._replace(...) of a named tuple."""
    if not (isinstance(part.func, ast.Attribute) and chain(part.func) == ("dataclasses", ["replace"])):
        return []
    start, stop = span(part.args[0], text)
    more = stop + 2 if text[stop : stop + 2] == ", " else stop + 1
    return [(span(part.func, text)[0], more, f"{text[start:stop]}._replace(")]


def fixed_text(part: ast.JoinedStr, known: dict[str, Any], local: set[str]) -> str | None:
    """What a text with values in it says, where these are known; None where they are the function's own."""
    names = {n.id for n in ast.walk(part) if isinstance(n, ast.Name)}
    if names <= local:
        return None
    if names & local or names - set(known):
        raise NotPlainError("reproducer: a text made at each step can't be written as plain source")
    return str(eval(compile(ast.Expression(part), "<text>", "eval"), {}, {n: known[n] for n in names}))


def without_annotations(part: ast.FunctionDef | ast.AnnAssign, text: str) -> list[Edit]:
    """Types off, and no `self`."""
    if isinstance(part, ast.AnnAssign):
        return [(span(part.target, text)[1], span(part.annotation, text)[1], "")]
    edits: list[Edit] = []
    for argument in (*part.args.args, *part.args.kwonlyargs):
        if argument.annotation is None:
            continue
        start, stop = span(argument, text)[0] + len(argument.arg), span(argument.annotation, text)[1]
        spaced = text[stop : stop + 3] == " = "
        edits.append((start, stop + 3 * spaced, "=" * spaced))
    if part.args.args and part.args.args[0].arg == "self":
        start = span(part.args.args[0], text)[0]
        edits.append((start, start + len("self, "), ""))
    if part.returns is not None:
        stop = span(part.returns, text)[1]
        edits.append((text.rindex(" -> ", 0, stop), stop, ""))
    return edits


def shorter_docstring(part: ast.FunctionDef, text: str) -> list[Edit]:
    """The first line of the docstring as a comment beside the name, where there is room."""
    docstring = ast.get_docstring(part)
    if docstring is None:
        return []
    start, stop = span(part.body[0], text)
    line_end = text.rindex("\n", 0, start)
    first = docstring.splitlines()[0].rstrip(".")
    if text[stop : stop + 2] == "\n\n":
        stop += 1
    comment = f"  # {first[0].lower()}{first[1:]}"
    room = WIDTH - (line_end - text.rindex("\n", 0, line_end))
    return [(line_end, stop, comment if len(comment) < room else "")]


def without_line(node: ast.stmt, text: str) -> Edit:
    """A statement off, with its line and the empty one after it."""
    start, stop = span(node, text)
    stop += 1
    return text.rindex("\n", 0, start) + 1, stop + (text[stop : stop + 1] == "\n"), ""


def span(node: Any, text: str) -> tuple[int, int]:
    """Where a node begins and ends in the text. Sources are ASCII."""
    lines = _line_starts(text)
    return lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset


@cache
def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def applied(text: str, node: Any, edits: list[Edit]) -> str:
    """A function at the left margin, edited."""
    start, stop = span(node, text)
    return textwrap.dedent(" " * node.col_offset + edited(text, start, stop, edits)) + "\n"


def edited(text: str, start: int, stop: int, edits: list[Edit]) -> str:
    """A part of the text, edited. An edit within another gives way."""
    found = text[start:stop]
    inner = {e for e in edits for other in edits if e[:2] != other[:2] and other[0] <= e[0] and e[1] <= other[1]}
    for a, b, new in sorted(set(edits) - inner, reverse=True):
        found = found[: a - start] + new + found[b - start :]
    return found


POSITIONS = ("q_positions", "k_positions", "cache_slots", "cache_places", "cache_rows")


def value(name: str, told: Any) -> str:
    """A value of a short name as source."""
    return positions(told) if name in POSITIONS else literal(told)


def positions(found: tuple[float, ...]) -> str:
    """Positions as an expression where there is one."""
    t = len(found)
    for text in _guesses(found, t):
        if [*eval(text)] == [*found] or all(abs(a - b) < 1e-9 for a, b in zip(eval(text), found, strict=True)):
            return text
    return repr(found)


def _guesses(found: tuple[float, ...], t: int) -> list[str]:
    guesses = (
        [f"range({t})", f"[{found[0]}] * {t}", f"range({found[0]}, {t} + {found[0]})"]
        if found[0] == int(found[0])
        else []
    )
    guesses.append(f"[min(p, {max(found)}) for p in range({t})]")
    if found[-1]:
        guesses.append(f"[p / {round((t - 1) / found[-1], 3):g} for p in range({t})]")
    jumps = [i for i in range(1, t) if found[i] - found[i - 1] > 1]
    if jumps:
        every, jump = jumps[0], found[jumps[0]] - found[jumps[0] - 1] - 1
        guesses.append(f"[p + {jump} * (p // {every}) for p in range({t})]")
    guesses.append(f"[p % {max(found) + 1} for p in range({t})]")
    behind = sum(p == i for i, p in enumerate(found))
    guesses.append(f"[p - (p >= {behind}) for p in range({t})]")
    guesses.append(f"[int(p < {sum(found)}) for p in range({t})]")
    return guesses
