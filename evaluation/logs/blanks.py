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

from bisect import bisect_left
from collections import Counter
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
    valued = [i for i, found in enumerate(cells) if any(target in columns for target in found.values)]
    blanks = Blanks(asked.blank or "rule")
    if not valued:
        return blanks, []
    bare = [f for f in cells if not any(t in columns for t in f.values) and any(name in outcomes for name in f.row)]
    tail = [found for found in cells[valued[-1] + 1 :] if any(name in outcomes for name in found.row)]
    before = cells[: valued[-1] + 1]
    if tail:
        blanks.rows, blanks.since = len(tail), (tail[0].place, tail[0].step)
    filled: list[tuple[Cells, list[Target]]] = []
    if asked.blank == NAN:
        counts = Counter(target for i in valued for target in cells[i].values)
        most = [target for target in columns if 2 * counts[target] > len(valued)] or list(columns)
        filled, blanks.why = [(found, most) for found in bare], "as asked"
    elif asked.blank is None and tail:
        filled, blanks.why = _by_rule(before, tail, choice, columns, asked, numbers)
    taken = {(found.step, target) for found in cells for target in found.values}
    for found, targets in filled:
        for target in targets:
            if (found.step, target) not in taken:
                found.values[target] = float("nan")
                blanks.nan[str(target)] = blanks.nan.get(str(target), 0) + 1
    missing = Counter(
        outcomes[name] for f in cells for name in f.row if name in outcomes and outcomes[name] not in f.values
    )
    blanks.missing |= {str(target): missing[target] for target in columns if missing[target]}
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
    live = {name for found in tail for name, cell in found.row.items() if name not in own and _full(cell)}
    others = sorted(name for name in live if name not in choice.signals)
    words = _words(set(others), [*before, *tail], numbers)
    going = next((name for name in others if any(part in plain(name) for part in _OF_THE_MODEL)), None)
    if going is None and any(name in asked.mapping for name in columns.values()):
        going = next((name for name in others if name not in words), None)
    if going is not None:
        return [], f"{going!r} goes on"

    def kind(found: Cells) -> frozenset[tuple[str, str]]:
        row = found.row.items()
        return frozenset((n, str(cell) if n in words else "") for n, cell in row if n in live and _full(cell))

    first: dict[Target, int] = {}
    alike: dict[Any, list[int]] = {}  # places of the rows of a kind
    had: dict[Any, Counter[Target]] = {}  # in how many of them a signal has a value
    for place, found in enumerate(before):
        alike.setdefault(kind(found), []).append(place)
        had.setdefault(kind(found), Counter()).update(found.values.keys())
        for target in found.values:
            first.setdefault(target, place)
    steps = {found.step for found in before}
    filled = []
    for found in tail:
        which, always = kind(found), []
        places = alike.get(which, []) if found.step not in steps else []
        for name in found.row:
            of = choice.signals.get(name)
            if of is None or of not in columns or of not in first:
                continue
            since = len(places) - bisect_left(places, first[of])
            if since and had[which][of] == since:
                always.append(of)
        if always:
            filled.append((found, always))
    if len({found.step for found, _ in filled}) < FEWEST:
        return [], f"fewer than {FEWEST} rows" if filled else "rows like it have no such value"
    return filled, "rows like it had a value every time, and none comes again"


def _full(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""


def _words(names: set[str], cells: Sequence[Cells], numbers: Numbers) -> set[str]:
    """Those of some columns that say with a few texts what kind of row it is."""
    texts: dict[str, set[str]] = {name: set() for name in names}
    for found in cells:
        for name, cell in found.row.items():
            if name in names and _full(cell) and len(texts[name]) <= MOST_WORDS:
                texts[name].add(str(cell))
    return {
        name
        for name, seen in texts.items()
        if len(seen) <= MOST_WORDS and not any(_is_number(text, numbers) for text in seen)
    }


def _is_number(text: str, numbers: Numbers) -> bool:
    try:
        Numbers(comma=numbers.comma).value(text, "")
    except InputError:
        return False
    return True
