"""From rows, of a table or of JSON objects, to the points of a log."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.schema import EVALUATIONS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.blanks import Cells, settle_blanks
from trainwreck.evaluation.logs.log import LAST_STEP, Asked, Blanks, Log, Points, checked_step
from trainwreck.evaluation.logs.names import OWN_STEP, Choice, choose, plain
from trainwreck.evaluation.logs.numbers import Numbers

SHORTEST = 3  # rows of an epoch, as far as a count within one is looked for
EPOCHS = ("epoch", "epochs", "train_epoch")

Row = tuple[str, Mapping[str, Any]]
"""The place of a row ("run.csv, line 7"), and its cells by column."""


def log_of_rows(
    format: str,
    file: Path,
    names: Sequence[str],
    rows: Sequence[Row],
    asked: Asked,
    numbers: Numbers,
    *,
    name: str = "",
    check: Callable[[Sequence[str]], None] = lambda taken: None,
    writes_nan: bool = False,
) -> Log:
    """The log that rows are. check: called with the columns that are read, may raise InputError.

    writes_nan: the format's own writer spells NaN out, so that a blank cell never stands for it.
    """
    mapping = asked.mapping
    asked.memory.limits.check_columns(len(names), str(file))
    filled = {column for _, row in rows for column, cell in row.items() if cell is not None and cell != ""}
    present = [column for column in names if column in filled or column in mapping]
    hint = ", or number the rows with --every N"
    choice = choose(present, mapping, str(file), has_step=asked.every is None, hint=hint)
    if asked.every is not None:
        counted = [column for column, why in choice.ignored.items() if why == OWN_STEP]
        choice.ignored.update(dict.fromkeys(counted, "the rows are numbered with --every"))
    choice.ignored.update((column, "empty") for column in names if column not in filled and column not in mapping)
    check([*([choice.step] if choice.step else []), *choice.signals])
    cells = list(_cells(rows, choice, asked, numbers))
    _check_epochs(cells, choice)
    if choice.step is not None and choice.step not in mapping:
        _check_passes(cells, choice.step)
    blanks: Blanks | None = None
    bare: list[int] = []
    if not writes_nan or asked.blank is not None:
        blanks, bare = settle_blanks(cells, choice, asked, numbers)
    points = {target: Points() for target in choice.signals.values()}
    for found in cells:
        for target, value in found.values.items():
            points[target].add(found.step, value)
    rules = Counter({"decimal commas": numbers.commas} if numbers.commas else {})
    if asked.every is not None:
        rules[f"rows numbered {asked.every} apart"] = len({found.step for found in cells})
    log = Log(name, format, [file], choice, points, rules, bare, blanks)
    if not any(found.steps for found in points.values()):
        raise InputError(f"{log.place}: no value is logged in {', '.join(map(repr, choice.signals))}")
    return log


def _cells(rows: Sequence[Row], choice: Choice, asked: Asked, numbers: Numbers) -> Iterator[Cells]:
    """Rows that have a step. With --every, validation alone does not count as a row."""
    at = 0
    for place, row in rows:
        values = {}
        for column, cell in row.items():
            target = choice.signals.get(column)
            value = None if target is None else numbers.value(cell, f"{place}: column {column!r}")
            if target is not None and value is not None:
                values[target] = value
        if choice.step is None:
            at += 0 if values and all(target.signal in EVALUATIONS for target in values) else asked.every or 0
            step: int | None = at
        else:
            step = _step(row.get(choice.step), f"{place}: column {choice.step!r}", numbers, needed=bool(values))
        if step is not None:
            yield Cells(place, checked_step(step, place), row, values)


def _step(raw: Any, place: str, numbers: Numbers, *, needed: bool) -> int | None:
    """The step of a row; None for a row without values whose step is none."""
    try:
        step = numbers.step(raw, place)
    except InputError:
        if needed:
            raise
        return None
    if step is None and needed:
        raise InputError(f"{place} is empty where a value is logged; allowed: a step")
    return step if needed or step is None or 0 <= step <= LAST_STEP else None


def _check_epochs(cells: Sequence[Cells], choice: Choice) -> None:
    """InputError where the step falls as the epoch rises: it counts within an epoch, and rows would be repeats."""
    column = next((name for name in choice.ignored if plain(name) in EPOCHS), None)
    if column is None or choice.step is None:
        return
    last: tuple[int, float] | None = None
    for found in cells:
        try:
            epoch = Numbers().value(found.row.get(column), "")
        except InputError:
            return
        if epoch is None:
            continue
        if last is not None and found.step < last[0] and epoch > last[1]:
            raise InputError(
                f"{found.place}: column {choice.step!r} falls from {last[0]} to {found.step} as {column!r} rises from "
                f"{last[1]:g} to {epoch:g}: it counts within an epoch; number the rows with --every N"
            )
        last = found.step, epoch


def _check_passes(cells: Sequence[Cells], column: str) -> None:
    """InputError where the steps of a signal begin again and end where they ended before, as within an epoch.

    A run that was resumed begins later than it did, or ends elsewhere.
    """
    for target in dict.fromkeys(target for found in cells for target in found.values):
        own = [(found.step, found.place) for found in cells if target in found.values]
        falls = [i for i in range(1, len(own)) if own[i][0] < own[i - 1][0]]
        edges = [0, *falls, len(own)]
        passes = [(own[a][0], own[b - 1][0], b - a) for a, b in pairwise(edges)]
        for i, (before, now) in enumerate(pairwise(passes), 1):
            if before[:2] == now[:2] and min(before[2], now[2]) >= SHORTEST:
                raise InputError(
                    f"{own[edges[i]][1]}: column {column!r} goes from {now[0]} to {now[1]} a second time, as a count "
                    f"within an epoch does; number the rows with --every N, or keep the last of each step with "
                    f"--map '{column}=step'"
                )


def flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Objects within an object as `outer/inner`, lists as `name/0`, `name/1` ...

    >>> flat({"step": 3, "train": {"loss": 2.5}, "layer_grad_norm": [1.0, 2.0]})
    {'step': 3, 'train/loss': 2.5, 'layer_grad_norm/0': 1.0, 'layer_grad_norm/1': 2.0}
    """
    found: dict[str, Any] = {}
    for key, content in value.items():
        if isinstance(content, Mapping):
            more = flat(content, f"{above}{key}/")
        elif isinstance(content, list):
            more = flat({str(i): entry for i, entry in enumerate(content)}, f"{above}{key}/")
        else:
            more = {f"{above}{key}": content}
        twice = next((name for name in more if name in found), None)
        if twice is not None:
            raise InputError(f"{twice!r} stands twice in one row; allowed: once")
        found |= more
    return found
