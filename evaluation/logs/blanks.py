"""Blank cells: what was not logged, or NaN by a writer that leaves it blank, as `DataFrame.to_csv` does.

What is judged is a row that has a step but no value of any signal that depends on the model: once the
model is NaN, so are its loss, validation loss and gradient norm, while the learning rate goes on. The
rows after the last value are read as NaN where all of this holds, and as missing otherwise:

the end      no such signal, and no other column with a loss, gradient or perplexity in its name, ever
             has a value again
like rows    rows that fill the same other columns with the same words (`kind`, `split`) had the signal
             every time, from its first value on: validation rows did not have a training loss before
many         there are three such rows or more, at steps of their own
by no name   NaN is written out nowhere in the log, else its writer would have written these out too
one run      where a signal was named with --map, no other column of numbers goes on: in a table with a
             column a run, the run has ended

A blank row between two values is missing: the model was no NaN there, or the run went on from before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainwreck.evaluation.dataset.schema import BY_NAME, Role
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.logs.log import Asked, Blanks
from trainwreck.evaluation.logs.names import Choice, Target, plain
from trainwreck.evaluation.logs.numbers import Numbers

NAN, MISSING = READINGS = ("nan", "missing")
FEWEST = 3  # rows
MOST_WORDS = 10  # different texts in a column that says what kind of row it is
_OF_THE_MODEL = ("loss", "nll", "entropy", "perplexity", "ppl", "bpb", "bpc", "grad")


@dataclass
class Cells:
    """A row with a step: its cells, and the values of the signals that it has."""

    place: str
    step: int
    row: Mapping[str, Any]
    values: dict[Target, float]


def checked_reading(blank: str | None) -> str | None:
    """The same; InputError for what --blank does not take."""
    if blank is not None and blank not in READINGS:
        raise unknown("--blank", blank, READINGS)
    return blank


def settle_blanks(cells: Sequence[Cells], choice: Choice, asked: Asked, numbers: Numbers) -> tuple[Blanks, list[int]]:
    """Put NaN where a blank cell stands for it; what was done, and the steps at the end that have no value at all."""
    outcomes = {name: target for name, target in choice.signals.items() if BY_NAME[target.signal].role is Role.OUTCOME}
    columns = {target: name for name, target in outcomes.items()}
    valued = [i for i, found in enumerate(cells) if any(target in found.values for target in columns)]
    blanks = Blanks(asked.blank or "rule")
    if not valued:
        return blanks, []
    bare = [f for f in cells if not any(t in f.values for t in columns) and any(name in f.row for name in outcomes)]
    tail = [found for found in cells[valued[-1] + 1 :] if any(name in found.row for name in outcomes)]
    before = cells[: valued[-1] + 1]
    if tail:
        blanks.rows, blanks.since = len(tail), (tail[0].place, tail[0].step)
    filled: list[tuple[Cells, list[Target]]] = []
    if asked.blank == NAN:
        most = [t for t in columns if 2 * sum(t in cells[i].values for i in valued) > len(valued)] or list(columns)
        filled, blanks.why = [(found, most) for found in bare], "as asked"
    elif asked.blank is None and tail:
        filled, blanks.why = _by_rule(before, tail, choice, columns, asked, numbers)
    taken = {(found.step, target) for found in cells for target in found.values}
    for found, targets in filled:
        for target in targets:
            if (found.step, target) not in taken:
                found.values[target] = float("nan")
                blanks.nan[str(target)] = blanks.nan.get(str(target), 0) + 1
    for target, name in columns.items():
        count = sum(name in found.row and target not in found.values for found in cells)
        if count:
            blanks.missing[str(target)] = count
    return blanks, [found.step for found in tail if not found.values]


def _by_rule(
    before: Sequence[Cells],
    tail: Sequence[Cells],
    choice: Choice,
    columns: Mapping[Target, str],
    asked: Asked,
    numbers: Numbers,
) -> tuple[list[tuple[Cells, list[Target]]], str]:
    if any(value != value for found in before for target, value in found.values.items() if target in columns):
        return [], "NaN is written out in this log"
    own = {choice.step, *columns.values()}
    live = sorted({name for found in tail for name, cell in found.row.items() if name not in own and _full(cell)})
    others = [name for name in live if name not in choice.signals]
    words = {name for name in others if _is_word(name, [*before, *tail], numbers)}
    going = next((name for name in others if any(part in plain(name) for part in _OF_THE_MODEL)), None)
    if going is None and any(name in asked.mapping for name in columns.values()):
        going = next((name for name in others if name not in words), None)
    if going is not None:
        return [], f"{going!r} goes on"

    def kind(found: Cells) -> tuple[Any, ...]:
        return tuple(str(found.row.get(name)) if name in words else _full(found.row.get(name)) for name in live)

    first = {target: next((i for i, f in enumerate(before) if target in f.values), len(before)) for target in columns}
    alike: dict[tuple[Any, ...], list[tuple[int, Cells]]] = {}
    for place, found in enumerate(before):
        alike.setdefault(kind(found), []).append((place, found))
    steps = {found.step for found in before}
    filled = []
    for found in tail:
        always = []
        for target, name in columns.items():
            like = [f for place, f in alike.get(kind(found), ()) if place >= first[target]]
            if name in found.row and found.step not in steps and like and all(target in f.values for f in like):
                always.append(target)
        if always:
            filled.append((found, always))
    if len({found.step for found, _ in filled}) < FEWEST:
        return [], f"fewer than {FEWEST} rows" if filled else "rows like it have no such value"
    return filled, "rows like it had a value every time, and none comes again"


def _full(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""


def _is_word(name: str, cells: Sequence[Cells], numbers: Numbers) -> bool:
    """Whether a column says with a few texts what kind of row it is."""
    texts = {str(found.row.get(name)) for found in cells if _full(found.row.get(name))}
    return len(texts) <= MOST_WORDS and not any(_is_number(text, numbers) for text in texts)


def _is_number(text: str, numbers: Numbers) -> bool:
    try:
        Numbers(comma=numbers.comma).value(text, "")
    except InputError:
        return False
    return True
