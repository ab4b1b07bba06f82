"""Detectors in any language: a command that answers each line of JSON with one."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from trainwreck.evaluation.detectors.base import OutputError, Row, normalise
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.alarms import Transcript
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import NAMES, rows
from trainwreck.evaluation.replay.sandbox import confine, messages
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.process import FailedError, Process
from trainwreck.evaluation.replay.sandbox.talk import Asked, beginning
from trainwreck.evaluation.replay.status import GARBAGE

PREFIX = "cmd:"
GRACE = 0.5  # seconds to end after its input has


def words_of(name: str) -> list[str]:
    """Program and words of `cmd:...`, as a shell splits them; files that are there by their full path.

    The full path, as the command runs in an empty folder. Raises InputError for a command that can't be.
    """
    words = _split(name)
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"detector {name}: {words[0]!r} is no program; allowed: one on the PATH, or a path")
    return [str(Path(program).absolute()), *map(_in_full, words[1:])]


def shown(name: str) -> str:
    """`cmd:...` without the folders of its files. Raises InputError."""
    return PREFIX + " ".join(Path(word).name for word in _split(name))


def _split(name: str) -> list[str]:
    try:
        words = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise InputError(f"detector: {name!r} is not allowed ({error}); allowed: cmd:PROGRAM WORD ...") from None
    if not words:
        raise InputError(f"detector: {name!r} is not allowed; allowed: cmd:PROGRAM WORD ...")
    return words


def _in_full(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if path.is_file() else word


class CommandTalk:
    """A command and its process. words: as `words_of` gives them.

    Raises FailedError where it does not answer as it must.
    """

    def __init__(self, words: list[str], limits: Limits) -> None:
        self._limits = limits
        bounds = (os.getpid(), int(2 * limits.memory_mb * 2**20))
        assert confine.__file__
        # -I and -S: nothing but the standard library, within some ten milliseconds.
        self._process = Process([sys.executable, "-I", "-S", confine.__file__, *map(str, bounds), *words], limits)
        with beginning(self):
            self.about: dict[str, Any] = messages.about(self._ask(messages.hello()))
            self._signals: list[str] | None = self.about.get("signals")
            for name in self._signals or ():
                if name not in NAMES:
                    raise FailedError(GARBAGE, str(unknown("signals", name, NAMES)))

    def replay(self, asked: Asked, heard: Transcript) -> int | None:
        self._process.forget()
        messages.answer(self._ask(messages.reset(asked.context)), "ready")
        for seen in observe(rows(asked.trace), asked.profile, k=asked.k):
            step = seen["step"]
            message = messages.row(dict(seen) if self._signals is None else self._part(seen))
            start = perf_counter_ns()
            line = self._process.ask(message, messages.whole, self._limits.row_seconds)
            spent = perf_counter_ns() - start
            try:
                verdict = normalise(messages.verdict(line, step), threshold=None, known=asked.known)
            except OutputError as error:
                raise FailedError(GARBAGE, str(error)) from None
            heard.add(step, verdict, spent)
        self._process.check_silent()
        return None

    def last_lines(self) -> tuple[str, ...]:
        return self._process.last_lines()

    def close(self) -> None:
        self._process.close(GRACE)

    def _part(self, seen: Row) -> Row:
        return {"step": seen["step"]} | {name: seen[name] for name in self._signals or ()}

    def _ask(self, message: bytes) -> bytes:
        return self._process.ask(message, messages.whole, self._limits.start_seconds)
