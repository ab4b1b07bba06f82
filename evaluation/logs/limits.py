"""What a log may take: its columns, its lines, and the memory of everything that is read from it.

Memory is estimated before it is taken, by what Python objects of the same number and size take, so that a small file
that would become a large table is refused in one line.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainwreck.evaluation.constants import LOG_COLUMNS, LOG_LINE_KB, LOG_MB
from trainwreck.evaluation.errors import InputError

MIB = 2**20
# Bytes, measured with sys.getsizeof and tracemalloc on CPython 3.11 and rounded up.
ROW, CELL, POINT = 600, 160, 80  # a row's place and dictionary; a cell's key, slot and value; a step with its value
TEXT = 6  # of a character: the bytes as read, the text, and its lines


@dataclass(frozen=True)
class LogLimits:
    """Limits of one log. Options --log-mb, --log-columns and --log-line-kb set them; in Python `log_mb` and so on.

    InputError for one that is not a number above 0.
    """

    memory_mb: float = LOG_MB
    columns: int = LOG_COLUMNS
    line_kb: float = LOG_LINE_KB

    def __post_init__(self) -> None:
        for name, value in (("log_mb", self.memory_mb), ("log_columns", self.columns), ("log_line_kb", self.line_kb)):
            if not 0 < value < math.inf:
                raise InputError(f"{name}: {value!r} is not allowed; allowed: a finite number above 0")

    def check_line(self, length: int, place: str) -> None:
        """InputError for a line of more bytes or characters than allowed."""
        if length > 1024 * self.line_kb:
            raise InputError(f"{place}: over {self.line_kb:g} KiB long; allowed: so much, or more with --log-line-kb")

    def check_columns(self, count: int, place: str) -> None:
        """InputError for more columns than allowed."""
        if count > self.columns:
            raise InputError(f"{place}: more than {self.columns} columns; allowed: so many, or more with --log-columns")


class Memory:
    """Bytes that are taken for a log so far."""

    def __init__(self, limits: LogLimits | None = None) -> None:
        self.limits = limits or LogLimits()
        self.used = 0

    def take(self, count: float, place: str) -> None:
        """Count so many bytes more; InputError where they are too many."""
        self.used += int(count)
        if self.used > self.limits.memory_mb * MIB:
            raise InputError(
                f"{place}: takes over {self.limits.memory_mb:g} MiB of memory to read; allowed: so much, or more with "
                "--log-mb"
            )

    def take_file(self, file: Path) -> None:
        """Count the text of a file; InputError for what is no regular file."""
        from trainwreck.evaluation.files import check_regular  # which loads pyarrow, and options need the limits alone

        check_regular(file)
        try:
            size = file.stat().st_size
        except OSError:
            return  # whoever opens it says why
        self.take(TEXT * size, str(file))

    @contextmanager
    def for_a_while(self) -> Iterator[None]:
        """What is taken inside is given back at the end: rows from which points are made."""
        before = self.used
        yield
        self.used = before
