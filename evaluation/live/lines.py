"""Whole lines of a text file that grows, is rotated, or is rewritten while it is read.

A line counts once its newline is written. When another file is found at the path (rotation), the rest of the
old one is read first; when the file got shorter, or begins otherwise than it did (a logger that rewrites
it with another header), it is read from the start.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import LogLimits

BLOCK = 1 << 20  # bytes read at a time
HEAD = 256  # bytes at the beginning by which a file is known again
UTF8_MARK = b"\xef\xbb\xbf"
OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Line(NamedTuple):
    """A line without its newline. first: of a file that was just opened. whole: it ended in a newline."""

    number: int
    text: str
    first: bool
    whole: bool = True


class Lines:
    """Lines of the file at `path`, which need not exist yet."""

    def __init__(self, path: Path, limits: LogLimits | None = None) -> None:
        self.path, self.limits = path, limits or LogLimits()
        self._file: BinaryIO | None = None

    def poll(self) -> Iterator[Line]:
        """The lines that came since the last call. InputError for a file that can't be read or is not UTF-8."""
        try:
            if self._file is not None and not self._same():
                yield from self._rest_of_old()
            if self._file is None and self.path.is_file():
                self._file = self.path.open("rb")
                self._head, self._left, self._number, self._first = b"", b"", 0, True
            if self._file is not None:
                yield from self._read(self._file)
        except OSError as error:
            raise InputError(f"{self.path}: can't be read ({error.strerror or error})") from None

    def last(self) -> Iterator[Line]:
        """The text after the last newline, once the file is complete."""
        if self._file is not None and self._left.strip():
            yield self._line(self._left, whole=self._left.endswith(b"\r"))
            self._left = b""

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _same(self) -> bool:
        """Whether the open file is still the one at the path, as long as it was and beginning as it did."""
        assert self._file is not None
        opened = os.fstat(self._file.fileno())
        if opened.st_size < self._file.tell():
            return False
        at = self._file.tell()
        self._file.seek(0)
        known = self._file.read(len(self._head)) == self._head
        self._file.seek(at)
        try:
            current = self.path.stat()
        except FileNotFoundError:  # moved away, and nothing in its place yet
            return True
        return known and (opened.st_dev, opened.st_ino) == (current.st_dev, current.st_ino)

    def _rest_of_old(self) -> Iterator[Line]:
        assert self._file is not None
        at = self._file.tell()
        self._file.seek(0)
        if self._file.read(len(self._head)) == self._head and os.fstat(self._file.fileno()).st_size >= at:
            self._file.seek(at)
            yield from self._read(self._file)
        self.close()

    def _read(self, file: BinaryIO) -> Iterator[Line]:
        while block := file.read(BLOCK):
            if len(self._head) < HEAD:
                self._head += block[: HEAD - len(self._head)]
            lines = (self._left + block).splitlines(keepends=True)  # of bytes: at \n, \r and \r\n alone
            self._left = b"" if lines[-1].endswith(b"\n") else lines.pop()  # a \r may be the half of \r\n
            for line in lines:
                yield self._line(line)
            self.limits.check_line(len(self._left), f"{self.path}, line {self._number + 1}")

    def _line(self, content: bytes, *, whole: bool = True) -> Line:
        self._number += 1
        self.limits.check_line(len(content), f"{self.path}, line {self._number}")
        if self._number == 1:
            if content.startswith(OTHER_MARKS):
                raise InputError(f"{self.path}: UTF-16 is not allowed here; allowed: UTF-8")
            content = content.removeprefix(UTF8_MARK)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{self.path}, line {self._number}: not UTF-8 text") from None
        line = Line(self._number, text.rstrip("\r\n"), self._first, whole)
        self._first = False
        return line
