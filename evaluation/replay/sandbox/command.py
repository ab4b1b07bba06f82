"""The words of a command that is a detector, or a policy."""

import shlex
import shutil
from pathlib import Path

from trainwreck.evaluation.errors import InputError

PREFIX = "cmd:"


def words_of(name: str, what: str = "detector") -> list[str]:
    """Program and words of `cmd:...`, as a shell splits them; files that are there by their full path.

    The full path, as the command runs in an empty folder. what: it is, for errors. Raises InputError for a command
    that can't be.
    """
    words = _split(name, what)
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"{what} {name}: {words[0]!r} is no program; allowed: one on the PATH, or a path")
    return [str(Path(program).absolute()), *map(_in_full, words[1:])]


def shown(name: str, what: str = "detector") -> str:
    """`cmd:...` without the folders of its files. Raises InputError."""
    return PREFIX + " ".join(Path(word).name for word in _split(name, what))


def _split(name: str, what: str) -> list[str]:
    try:
        words = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise InputError(f"{what}: {name!r} is not allowed ({error}); allowed: cmd:PROGRAM WORD ...") from None
    if not words:
        raise InputError(f"{what}: {name!r} is not allowed; allowed: cmd:PROGRAM WORD ...")
    return words


def _in_full(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if path.is_file() else word
