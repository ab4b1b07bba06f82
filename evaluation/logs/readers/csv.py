"""CSV with a header: any of four separators, quotes, a byte order mark, blank lines, decimal commas.

The separator is the one of comma, semicolon, tab and bar that parts the header into most cells. A
line that repeats the header, as a run that was resumed writes it, is skipped; so is a last line that
was not written to its end. A line with another number of cells is refused. A column `run`, `run_id`,
`run_name` or `experiment` with several values parts the table into runs.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

from trainwreck.evaluation.errors import InputError
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

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rules: Counter[str] = Counter()
        text = read_text(file)
        self._whole = not text or text[-1] in "\r\n"
        lines = list(StringIO(text, newline=""))
        first = next((i for i, line in enumerate(lines) if line.strip()), None)
        if first is None:
            raise InputError(f"{file}: empty; allowed: a header and rows")
        self._head = f"{file}, line {first + 1}"
        self.separator = separator_of(lines[first])
        cells = self._cells(lines[first:], first)
        self.header = [name.strip() for name in next(cells)[1]]
        self.rows: list[Row] = []
        for number, found in cells:
            if found == self.header:
                self.rules["repeated headers"] += 1
            elif self._fits(found, number, last=number == len(lines)):
                self.rows.append((f"{file}, line {number}", dict(zip(self.header, found, strict=False))))

    @property
    def numbers(self) -> Numbers:
        """As this file writes them."""
        return Numbers(comma=self.separator != ",")

    def once(self, columns: Sequence[str]) -> None:
        """InputError where one of these columns occurs twice."""
        for name in columns:
            if self.header.count(name) > 1:
                raise InputError(f"{self._head}: column {name!r} stands twice in the header; allowed: once")

    def _cells(self, lines: list[str], above: int) -> Iterator[tuple[int, list[str]]]:
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


def first_rows(file: Path) -> list[list[str]]:
    """The cells of the first two lines that are not blank, of very long ones the first; fewer where there are fewer."""
    lines = [line[:LONGEST] for line in read_text(file).splitlines() if line.strip()][:2]
    if not lines:
        return []
    separator = separator_of(lines[0])
    return [[cell.strip() for cell in next(csv.reader([line], delimiter=separator))] for line in lines]


def separator_of(header: str) -> str:
    """The separator that parts the header into most cells."""
    return max(SEPARATORS, key=lambda s: len(next(csv.reader([header], delimiter=s), [])))


def read_csv(file: Path, asked: Asked, format: str = "csv", *, writes_nan: bool = False) -> list[Log]:
    """The run of a table, or the runs where a column names them. writes_nan: see `log_of_rows`."""
    table = Table(file)
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
