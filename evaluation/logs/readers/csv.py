"""CSV with a header: any of four separators, quotes, a byte order mark, blank lines, decimal commas.

The separator is the one of comma, semicolon, tab and bar that parts the header into most cells. A
line that repeats the header, as a run that was resumed writes it, is skipped; so is a last line that
was not written to its end. A line with another number of cells is refused. A column `run`, `run_id`,
`run_name` or `experiment` with several values parts the table into runs.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import CELL, ROW, LogLimits, Memory
from trainwreck.evaluation.logs.log import Asked, Log
from trainwreck.evaluation.logs.names import plain
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, log_of_rows
from trainwreck.evaluation.logs.text import read_text

SEPARATORS = (",", ";", "\t", "|")
LONGEST = 100_000  # characters of a line, to tell a table from a text
RUNS = ("run", "run_id", "run_name", "experiment")  # columns that say whose row it is
SUMMARIES = ({"sys/id"}, {"Name", "State", "Created"})  # of tables with a row a run: Neptune's, W&B's


class Table:
    """The cells of a file. header: names of the columns. rows: the cells below it. rules: what was skipped."""

    def __init__(self, file: Path, memory: Memory | None = None) -> None:
        self.file, memory = file, memory or Memory()
        self.rules: Counter[str] = Counter()
        text = read_text(file, memory)
        self._whole = not text or text[-1] in "\r\n"
        first, count, header = None, 0, ""
        for count, line in enumerate(StringIO(text, newline=""), start=1):
            memory.limits.check_line(len(line), f"{file}, line {count}")
            if first is None and line.strip():
                first, header = count - 1, line
        if first is None:
            raise InputError(f"{file}: empty; allowed: a header and rows")
        self._head = f"{file}, line {first + 1}"
        self.separator = separator_of(header)
        cells = self._cells(islice(StringIO(text, newline=""), first, None), first)
        self.header = [name.strip() for name in next(cells, (0, []))[1]]
        if not self.header:
            raise InputError(f"{self._head}: a header without names; allowed: a header and rows")
        memory.limits.check_columns(len(self.header), self._head)
        self.rows: list[Row] = []
        for number, found in cells:
            place = f"{file}, line {number}"
            if found == self.header:
                self.rules["repeated headers"] += 1
            elif self._fits(found, number, last=number == count):
                memory.take(ROW + CELL * len(self.header) + sum(map(len, found)), place)
                self.rows.append((place, dict(zip(self.header, found, strict=False))))

    @property
    def numbers(self) -> Numbers:
        """As this file writes them."""
        return Numbers(comma=self.separator != ",")

    def once(self, columns: Sequence[str]) -> None:
        """InputError where one of these columns occurs twice."""
        for name in columns:
            if self.header.count(name) > 1:
                raise InputError(f"{self._head}: column {name!r} stands twice in the header; allowed: once")

    def _cells(self, lines: Iterable[str], above: int) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(lines, delimiter=self.separator, strict=True)
        try:
            for cells in reader:
                stripped = [cell.strip() for cell in cells]
                if any(stripped):
                    yield above + reader.line_num, stripped
        except csv.Error as error:
            raise InputError(f"{self.file}, line {above + reader.line_num}: not CSV ({error})") from None

    def _fits(self, cells: list[str], number: int, *, last: bool) -> bool:
        if len(cells) == len(self.header) or (not any(cells[len(self.header) :]) and len(cells) > len(self.header)):
            return True
        if last and not self._whole and len(cells) < len(self.header):
            self.rules["cut off last line"] += 1
            return False
        raise InputError(f"{self.file}, line {number}: {len(cells)} cells where the header has {len(self.header)}")


def first_rows(file: Path, limits: LogLimits | None = None) -> list[list[str]]:
    """The cells of the first two lines that are not blank, of very long ones the first; fewer where there are fewer."""
    lines = (line[:LONGEST] for line in StringIO(read_text(file, Memory(limits)), newline="") if line.strip())
    first = list(islice(lines, 2))
    separator = separator_of(first[0]) if first else ""
    return [[cell.strip() for cell in _cells_of(line, separator)] for line in first]


def separator_of(header: str) -> str:
    """The separator that parts the header into most cells."""
    return max(SEPARATORS, key=lambda separator: len(_cells_of(header, separator)))


def _cells_of(line: str, separator: str) -> list[str]:
    """The cells of one line; none where one is longer than the csv module reads."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def read_csv(file: Path, asked: Asked, format: str = "csv", *, writes_nan: bool = False) -> list[Log]:
    """The run of a table, or the runs where a column names them. writes_nan: see `log_of_rows`."""
    with asked.memory.for_a_while():
        logs = _read_csv(file, asked, format, writes_nan=writes_nan)
    asked.memory.take(sum(log.bytes for log in logs), str(file))
    return logs


def _read_csv(file: Path, asked: Asked, format: str, *, writes_nan: bool) -> list[Log]:
    table = Table(file, asked.memory)
    if any(mark <= set(table.header) for mark in SUMMARIES):
        raise InputError(
            f"{file}: a table of runs, one row each, has no steps; allowed: what a run logged, step by step: its "
            "history or a chart (W&B), its series (Neptune)"
        )
    logs = []
    for run, rows in _runs(table, asked).items():
        log = log_of_rows(
            format, file, table.header, rows, asked, table.numbers, name=run, check=table.once, writes_nan=writes_nan
        )
        log.rules.update(table.rules)
        logs.append(log)
    return logs


def _runs(table: Table, asked: Asked) -> dict[str, list[Row]]:
    """Rows by the run that a column names; all of them under an empty name where none does, or it names but one."""
    column = next((name for name in table.header if plain(name) in RUNS and name not in asked.mapping), None)
    if column is None or len({row[column] for _, row in table.rows}) < 2:
        return {"": table.rows}
    found: dict[str, list[Row]] = {}
    for place, row in table.rows:
        if not row[column]:
            raise InputError(f"{place}: column {column!r} is empty; allowed: the run that the row is of")
        found.setdefault(row[column], []).append((place, row))
    return found
