"""From rows, of a table or of JSON objects, to the points of a log."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.log import Log, Points, checked_step
from trainwreck.evaluation.logs.names import Target, choose
from trainwreck.evaluation.logs.numbers import Numbers

Row = tuple[str, Mapping[str, Any]]
"""The place of a row ("run.csv, line 7"), and its cells by column."""


def log_of_rows(
    format: str,
    file: Path,
    names: Sequence[str],
    rows: Sequence[Row],
    mapping: Mapping[str, Target],
    numbers: Numbers,
    *,
    name: str = "",
    check: Callable[[Sequence[str]], None] = lambda taken: None,
) -> Log:
    """The log that rows are. check: called with the columns that are read, may raise InputError."""
    filled = {column for _, row in rows for column, cell in row.items() if cell is not None and cell != ""}
    choice = choose([column for column in names if column in filled or column in mapping], mapping, str(file))
    choice.ignored.update((column, "empty") for column in names if column not in filled and column not in mapping)
    assert choice.step is not None, "choose saw to it"
    check([choice.step, *choice.signals])
    points = {target: Points() for target in choice.signals.values()}
    for place, row in rows:
        values = {}
        for column, target in choice.signals.items():
            value = numbers.value(row.get(column), f"{place}: column {column!r}")
            if value is not None:
                values[target] = value
        if not values:
            continue
        step = numbers.step(row.get(choice.step), f"{place}: column {choice.step!r}")
        if step is None:
            raise InputError(f"{place}: column {choice.step!r} is empty where a value is logged; allowed: a step")
        checked_step(step, place)
        for target, value in values.items():
            points[target].add(step, value)
    rules = Counter({"decimal commas": numbers.commas} if numbers.commas else {})
    log = Log(name, format, [file], choice, points, rules)
    if not any(found.steps for found in points.values()):
        raise InputError(f"{log.place}: no value is logged in {', '.join(map(repr, choice.signals))}")
    return log


def flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Objects within an object as `outer/inner`, lists as `name/0`, `name/1` ...

    >>> flat({"step": 3, "train": {"loss": 2.5}, "layer_grad_norm": [1.0, 2.0]})
    {'step': 3, 'train/loss': 2.5, 'layer_grad_norm/0': 1.0, 'layer_grad_norm/1': 2.0}
    """
    found: dict[str, Any] = {}
    for key, content in value.items():
        if isinstance(content, Mapping):
            found |= flat(content, f"{above}{key}/")
        elif isinstance(content, list):
            found |= flat({str(i): entry for i, entry in enumerate(content)}, f"{above}{key}/")
        else:
            found[f"{above}{key}"] = content
    return found
