"""The exceptions that the command line prints as one line, and text of others made safe to print."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 60  # listed in one message
LONGEST_LINE = 4000  # characters of a message

# ECMA-48: control sequences, then the strings that a terminator ends (titles, links), then the short ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,500}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-Z\\^-~]"
)


class InputError(ValueError):
    """Bad input from a user. The command line prints its one line and exits with 2."""


class WorkerLostError(RuntimeError):
    """A worker process died under its work. The command line prints its one line and exits with 1."""


class UnfinishedError(RuntimeError):
    """Work that was given so much time, and goes on when called again. One line, and exit code 3."""


def printable(text: object, limit: int = LONGEST_LINE) -> str:
    r"""Text of others (a log, a detector, a file's name) as one line that a terminal can't take for a command.

    Escape sequences are removed; characters that print nothing, lone surrogates among them, stand as their codes; white
    space is one blank. limit: characters, of which a longer text loses the middle ones.

    >>> printable("\x1b]0;title\x07loss \x1b[31mred\x1b[0m\n  \x07 \ud800")
    'loss red \\x07 \\ud800'
    """
    words = " ".join(_SEQUENCE.sub("", str(text)).split())
    if not words.isprintable():
        words = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    if len(words) <= limit:
        return words
    half = (limit - len(" ... ")) // 2
    return f"{words[:half]} ... {words[len(words) - half :]}"


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay; a line that can be printed as it is keeps its blanks."""
    return "\n".join(line if line.isprintable() else printable(line) for line in text.split("\n"))


def printable_error(error: BaseException) -> str:
    """What foreign code raised, on one line: its class, and its text as far as that can be had."""
    try:
        text = str(error)
    except Exception:  # the class is foreign code too
        text = "?"
    return printable(f"{type(error).__name__}: {text}")


def nearest(value: str, names: Iterable[str]) -> str:
    """A question with the name that is most like a value; empty where none is like it."""
    close = get_close_matches(value, list(names), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def unknown(setting: str, value: object, allowed: Iterable[str]) -> InputError:
    """An InputError that names setting, value and what is allowed, with the nearest match."""
    names = list(allowed)
    hint = nearest(str(value), names)
    shown = names if len(names) <= MOST_NAMES else [*names[:3], f"... ({len(names)} in all)"]
    return InputError(f"{setting}: {value!r} is not allowed{f'; {hint}' if hint else ''}; allowed: {', '.join(shown)}")
