"""The runs table as a file: every column of the schema, checked before anything else sees it.

Types, ranges, names and the JSON in cells are checked here and nowhere else; whether the columns of a row agree with
each other is `consistency`'s.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trainwreck.evaluation.dataset.documents import SPEC, WHOLE_SPEC, is_inside, misfit
from trainwreck.evaluation.dataset.schema import (
    ADDED,
    BY_NAME,
    HELD_OUT,
    JOINT,
    RUN_FIELDS,
    Harm,
    Outcome,
    RunKind,
)
from trainwreck.evaluation.errors import InputError, printable

UNPROVEN = "unproven"  # column of runs of scenarios that are not the catalogue's: not proven where it was labelled

LONGEST = 200  # characters of a name
MOST_STEPS = 100_000_000
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]*")
SEVERITIES = ("", "subtle", "clear", "severe")


@dataclass(frozen=True)
class Cell:
    """What a column's cells may be. holds: of a cell that is there, or of what its JSON says."""

    allowed: str
    holds: Callable[[Any], bool]
    missing: bool = True  # whether a cell may be empty
    json: bool = False


def objective_of(context: str | None) -> str:
    """The objective that a run's context declares; "" where it has none, as from before there were others.

    >>> objective_of('{"objective": "policy"}'), objective_of("{}")
    ('policy', '')
    """
    return str(json.loads(context or "{}").get("objective", ""))


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST and text.isprintable()


def _is_run_id(text: str) -> bool:
    return len(text) <= LONGEST and RUN_ID.fullmatch(text) is not None


def _is_step(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_STEPS


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and not math.isinf(value)  # NaN is another way to write that there is none


def _among(names: Collection[str], allowed: str = "", missing: bool = True) -> Cell:
    return Cell(allowed or ", ".join(names), lambda text: text in names, missing)


def _object(what: str, key: Callable[[str], bool], value: Callable[[Any], bool]) -> Cell:
    def holds(found: Any) -> bool:
        return isinstance(found, dict) and all(key(k) and value(v) for k, v in found.items())

    return Cell(f"an object of {what}", holds, json=True)


NAME = Cell(f"a name without control characters, of {LONGEST} characters at most", _is_name)
STEP = Cell(f"0 to {MOST_STEPS}", _is_step)
NUMBER = Cell("a finite number", _is_finite)
CELLS: dict[str, Cell] = {
    "run_id": Cell("letters, digits, blanks, . _ @ + and -", _is_run_id, missing=False),
    "scenario": NAME,
    "cause": NAME,
    "causes": _object("causes and their first steps", _is_name, _is_step),
    "family": NAME,
    "kind": _among([kind.value for kind in RunKind], missing=False),
    "split": NAME,
    "held_out": Cell(
        f"{', '.join(HELD_OUT)}, several joined by {JOINT}, or nothing",
        lambda text: not text or all(word in HELD_OUT for word in text.split(JOINT)),
    ),
    "severity": _among(SEVERITIES, f"{', '.join(SEVERITIES[1:])} or nothing"),
    "seed": Cell("0 or more", lambda seed: seed >= 0),
    "size": NAME,
    "base": NAME,
    "planned_steps": Cell(f"1 to {MOST_STEPS}", lambda steps: 1 <= steps <= MOST_STEPS),
    "last_step": Cell(STEP.allowed, _is_step, missing=False),
    "onset_step": STEP,
    "cure_step": STEP,
    "visible_step": STEP,
    "visible_steps": _object("signals and steps", lambda name: name in BY_NAME, _is_step),
    "visible_profiles": _object("observation profiles and steps", _is_name, _is_step),
    "no_return_step": STEP,
    "no_return_branches": _object(
        "steps and gaps", lambda step: step.isascii() and step.isdigit(), lambda gap: gap is None or _is_finite(gap)
    ),
    "no_return_monotone": Cell("true or false", lambda value: True),
    "outcome": _among([outcome.value for outcome in Outcome]),
    "final_loss": NUMBER,
    "final_gap": NUMBER,
    "tolerance": Cell("a finite number, 0 or more", lambda value: _is_finite(value) and not value < 0),
    "harm": _among(("", *(harm.value for harm in Harm)), "above, below, either or nothing"),
    "signatures": _object("causes, each true or false", _is_name, lambda held: type(held) is bool),
    "twin_id": Cell("the run_id of a run, or nothing", lambda text: not text or _is_run_id(text)),
    "context": _object("settings", lambda name: True, lambda value: True),
    "spec": Cell(
        f"an object with {', '.join(sorted(WHOLE_SPEC))}, or without role",
        lambda found: not misfit(found, SPEC) and (found.keys() >= WHOLE_SPEC or "role" not in found),
        json=True,
    ),
    "file": Cell("a file in the folder", lambda text: text != "" and is_inside(text), missing=False),
}


def read_runs(root: Path) -> pa.Table:
    """The runs table, with every column of `schema.RUN_FIELDS`. InputError for one that is missing and has no stand-in,
    for a column of another type, and for the first cell that is not allowed."""
    file = root / "runs.parquet"
    table = columns_of(file)
    if not len(table):
        raise InputError(f"{file}: it has no run; allowed: one or more")
    for name, cell in CELLS.items():
        _check(file, table, name, cell)
    return table


def columns_of(file: Path) -> pa.Table:
    """A file of runs with its columns as they should be, and whatever cells. InputError as `read_runs`."""
    try:
        table = pq.ParquetFile(file).read(use_threads=False)
        table.validate(full=True)  # text that is no UTF-8
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"{file}: damaged, not Parquet ({printable(error)})") from None
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise InputError(f"{file}: damaged, it has column {twice[0]!r} twice")
    missing = [name for name, _, _ in RUN_FIELDS if name not in (*table.column_names, *ADDED)]
    if missing:
        raise InputError(f"{file}: damaged, it has no column {', '.join(missing)}")
    for name in (name for name in ADDED if name not in table.column_names):
        table = table.append_column(name, pa.array([ADDED[name]] * len(table), pa.string()))
    types = {name: pa.type_for_alias(kind) for name, kind, _ in RUN_FIELDS} | {UNPROVEN: pa.bool_()}
    table = table.select([name for name in table.column_names if name in types])  # a later version's stay out
    for field in table.schema:
        if field.type != types[field.name]:
            raise InputError(f"{file}: column {field.name}: {field.type} is not allowed; allowed: {types[field.name]}")
    return table


def _check(file: Path, table: pa.Table, name: str, cell: Cell) -> None:
    column = table.column(name)
    if column.null_count and not cell.missing:
        at = column.is_null().index(True).as_py()
        raise InputError(f"{file}: row {at}: {name}: is empty; allowed: {cell.allowed}")
    values = column.unique().to_pylist()
    if name == "run_id" and len(values) < len(column):
        again = next(one for one, times in Counter(column.to_pylist()).items() if times > 1)
        raise InputError(f"{file}: run {again}: is there twice; allowed: each run once")
    for value in values:
        if value is not None and not _holds(cell, value):
            at = column.to_pylist().index(value)
            run_id = table.column("run_id")[at].as_py()
            whose = f"row {at}" if name == "run_id" else f"run {run_id}"
            raise InputError(f"{file}: {whose}: {name}: {shown(value)} is not allowed; allowed: {cell.allowed}")


def _holds(cell: Cell, value: Any) -> bool:
    if not cell.json:
        return cell.holds(value)
    try:
        return cell.holds(parsed(value))
    except (ValueError, RecursionError):
        return False


def shown(value: Any) -> str:
    """A cell's value in a line: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


@lru_cache(maxsize=8192)
def parsed(text: str | None) -> Any:
    """What the JSON of a cell says, not to be written to; an empty object for an empty cell. ValueError for a NaN."""
    return json.loads(text or "{}", parse_constant=_no_number)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
