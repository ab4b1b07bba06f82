"""JSON Lines: one object a line; objects and lists within it are flattened, NaN may be a bare word or a string.

A last line that was not written to its end is skipped. Columns may differ from line to line.
"""

from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import parse_json
from trainwreck.evaluation.logs.limits import CELL, ROW
from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, flat, log_of_rows
from trainwreck.evaluation.logs.text import read_text


def read_jsonl(file: Path, asked: Asked, format: str = "jsonl") -> list[Log]:
    """The one run of a file."""
    with asked.memory.for_a_while():
        log = _read(file, asked, format)
    asked.memory.take(log.bytes, str(file))
    return [log]


def _read(file: Path, asked: Asked, format: str) -> Log:
    rows: list[Row] = []
    rules: Counter[str] = Counter()
    names: dict[str, str] = {}
    for number, line in enumerate(StringIO(read_text(file, asked.memory), newline="\n"), start=1):
        if not line.strip():
            continue
        place = f"{file}, line {number}"
        asked.memory.limits.check_line(len(line), place)
        try:
            found = parse_json(line, _object)
        except _TwiceError as error:
            raise InputError(f"{place}: {str(error)!r} stands twice in one object; allowed: once") from None
        except ValueError as error:
            if not line.endswith("\n"):
                rules["cut off last line"] += 1
                continue
            raise InputError(f"{place}: not JSON ({error})") from None
        if not isinstance(found, dict):
            raise InputError(f"{place}: not a JSON object")
        try:
            row = flat(found)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        asked.memory.take(ROW + CELL * len(row), place)
        rows.append((place, {names.setdefault(name, name): cell for name, cell in row.items()}))
        asked.memory.limits.check_columns(len(names), place)
    if not rows:
        raise InputError(f"{file}: empty; allowed: one JSON object a line")
    log = log_of_rows(format, file, list(names), rows, asked, Numbers())
    log.rules.update(rules)
    return log


class _TwiceError(Exception):
    """A name that an object has twice, of which `json` would keep the last value."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError(next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1))
    return found
