"""CSV with a header: any of four separators, quotes, a byte order mark, blank lines, decimal commas.

The separator is the one of comma, semicolon, tab and bar that parts the header into most cells. A
line that repeats the header, as a run that was resumed writes it, is skipped; so is a last line that
was not written to its end. A line with another number of cells is refused.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.log import Log
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import Row, log_of_rows
from trainwreck.evaluation.logs.text import read_text

SEPARATORS = (",", ";", "\t", "|")


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
                raise InputError(f"{self.file}: column {name!r} stands twice in the header; allowed: once")

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


def separator_of(header: str) -> str:
    """The separator that parts the header into most cells."""
    return max(SEPARATORS, key=lambda s: len(next(csv.reader([header], delimiter=s), [])))


def read_csv(file: Path, mapping: Mapping[str, Target], format: str = "csv") -> list[Log]:
    """The one run of a table."""
    table = Table(file)
    log = log_of_rows(format, file, table.header, table.rows, mapping, table.numbers, check=table.once)
    log.rules.update(table.rules)
    return [log]
