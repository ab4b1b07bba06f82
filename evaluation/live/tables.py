"""Rows of a CSV or JSON Lines file that is still being written, by the rules of `readers.csv` and `readers.jsonl`.

A file that was replaced and begins with the row that the old one began with is the same run, written
again (Lightning's CSVLogger does so when a metric comes that the header does not have): as many rows as
were read already are skipped. A table that goes on without a header, as after a rotation, keeps the old one.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import parse_json
from trainwreck.evaluation.live.columns import Columns, Values
from trainwreck.evaluation.live.lines import Line, Lines
from trainwreck.evaluation.logs.limits import LogLimits
from trainwreck.evaluation.logs.names import Target
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.readers.csv import separator_of
from trainwreck.evaluation.logs.rows import flat

Found = tuple[int, Values]
"""Step and values of a row."""


class Table:
    """What CSV and JSON Lines share. Use one of the two."""

    def __init__(self, path: Path, mapping: Mapping[str, Target], limits: LogLimits | None = None) -> None:
        self.path = path
        self.lines = Lines(path, limits)
        self.columns = Columns(mapping, check=self.check, limits=limits)
        self.numbers = Numbers()
        self.rules: Counter[str] = Counter()
        self._beginning: Found | None = None  # the first row that had values
        self._known = 0  # rows with values that were read of this file, or of the one that it was before
        self._seen = 0  # rows with values that were met in the file as it stands
        self._again = False

    def poll(self) -> Iterator[Found]:
        """The rows that came since the last call."""
        for line in self.lines.poll():
            yield from self._row(line)

    def finish(self) -> Iterator[Found]:
        """A last row without a newline, where it is whole. InputError where no row had a known signal."""
        for line in self.lines.last():
            yield from self._row(line)
        self.columns.require(str(self.path))

    def close(self) -> None:
        """Let go of the file."""
        self.lines.close()

    def check(self, columns: Sequence[str]) -> None:
        """InputError for columns that can't be read."""

    def cells(self, line: Line) -> Mapping[str, object] | None:
        """Column to what is written there; None for a line that is no row."""
        raise NotImplementedError

    def _row(self, line: Line) -> Iterator[Found]:
        if line.first:
            self._again, self._seen = self._beginning is not None, 0
        cells = self.cells(line)
        if cells is None:
            return
        step, values = self.columns.read(cells, self.numbers, f"{self.path}, line {line.number}")
        if step is None:
            return
        self._seen += 1
        if self._again and self._seen == 1 and not _same(self._beginning, (step, values)):
            self._again, self._known = False, 0  # another file altogether
        if self._again and self._seen <= self._known:
            self.rules["rows written again"] += 1
            return
        self._again = False
        self._known = self._seen
        if self._seen == 1:
            self._beginning = step, values
        yield step, values


class JsonLines(Table):
    """One object a line."""

    def cells(self, line: Line) -> Mapping[str, object] | None:
        if not line.text.strip():
            return None
        place = f"{self.path}, line {line.number}"
        try:
            found = parse_json(line.text)
        except ValueError as error:
            if not line.whole:
                self.rules["cut off last line"] += 1
                return None
            raise InputError(f"{place}: not JSON ({error})") from None
        if not isinstance(found, dict):
            raise InputError(f"{place}: not a JSON object")
        try:
            return flat(found)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None


class Csv(Table):
    """A header and rows."""

    def __init__(self, path: Path, mapping: Mapping[str, Target], limits: LogLimits | None = None) -> None:
        super().__init__(path, mapping, limits)
        self.header: list[str] = []
        self._open = ""  # a line whose quotes are not closed yet

    def check(self, columns: Sequence[str]) -> None:
        for name in columns:
            if self.header.count(name) > 1:
                raise InputError(f"{self.path}: column {name!r} stands twice in the header; allowed: once")

    def cells(self, line: Line) -> Mapping[str, object] | None:
        if line.first:
            self._open, self._headed = "", False
        text = self._open + line.text
        if text.count('"') % 2 and line.whole:
            self.columns.limits.check_line(len(text), f"{self.path}, line {line.number}")
            self._open = text + "\n"
            return None
        self._open = ""
        if not text.strip():
            return None
        if not self._headed:
            self._headed = True
            if self._begin(text):
                return None
        found = self._split(text, line)
        if found == self.header:
            self.rules["repeated headers"] += 1
            return None
        width = len(self.header)
        if len(found) == width or (len(found) > width and not any(found[width:])):
            return dict(zip(self.header, found, strict=False))
        if not line.whole and len(found) < width:
            self.rules["cut off last line"] += 1
            return None
        raise InputError(f"{self.path}, line {line.number}: {len(found)} cells where the header has {width}")

    def _begin(self, text: str) -> bool:
        """Take a file's first line for its header; False where it is a row under the header of the file before."""
        separator = separator_of(text)
        try:
            found = [cell.strip() for cell in next(csv.reader([text], delimiter=separator), [])]
        except csv.Error as error:
            raise InputError(f"{self.path}: its header is not CSV ({error})") from None
        if not any(found):
            raise InputError(f"{self.path}: a header without names; allowed: a header and rows")
        self.columns.limits.check_columns(len(found), str(self.path))
        if self.header and len(found) == len(self.header) and _all_numbers(found):
            return False
        self.header = found
        self.separator = separator
        self.numbers = Numbers(comma=separator != ",")
        return True

    def _split(self, text: str, line: Line) -> list[str]:
        try:
            (cells,) = csv.reader([text], delimiter=self.separator, strict=True)
        except (csv.Error, ValueError) as error:
            if not line.whole:
                return []
            raise InputError(f"{self.path}, line {line.number}: not CSV ({error})") from None
        return [cell.strip() for cell in cells]


def _all_numbers(cells: Sequence[str]) -> bool:
    numbers = Numbers(comma=True)
    try:
        values = [numbers.value(cell, "") for cell in cells]
    except InputError:
        return False
    return any(value is not None for value in values)


def _same(one: Found | None, other: Found) -> bool:
    """Whether the second row is the first, perhaps with more columns than it had."""
    if one is None or one[0] != other[0]:
        return False
    return all(
        target in other[1] and (other[1][target] == value or (math.isnan(value) and math.isnan(other[1][target])))
        for target, value in one[1].items()
    )
