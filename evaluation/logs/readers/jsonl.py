"""JSON Lines: one object a line; objects and lists within it are flattened, NaN may be a bare word or a string.

A last line that was not written to its end is skipped. Columns may differ from line to line.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.log import Log
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, flat, log_of_rows
from trainwreck.evaluation.logs.text import read_text


def read_jsonl(file: Path, mapping: Mapping[str, Target], format: str = "jsonl") -> list[Log]:
    """The one run of a file."""
    rows: list[Row] = []
    rules: Counter[str] = Counter()
    names: dict[str, None] = {}
    lines = read_text(file).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{file}, line {number}"
        try:
            found = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            if number == len(lines):  # there is no newline after it
                rules["cut off last line"] += 1
                continue
            raise InputError(f"{place}: not JSON ({error})") from None
        if not isinstance(found, dict):
            raise InputError(f"{place}: not a JSON object")
        rows.append((place, flat(found)))
        names |= dict.fromkeys(rows[-1][1])
    if not rows:
        raise InputError(f"{file}: empty; allowed: one JSON object a line")
    log = log_of_rows(format, file, list(names), rows, mapping, Numbers())
    log.rules.update(rules)
    return [log]
