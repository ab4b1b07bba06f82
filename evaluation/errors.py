"""The exceptions that the command line prints as one line."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 60  # listed in one message


class InputError(ValueError):
    """Bad input from a user. The command line prints its one line and exits with 2."""


class WorkerLostError(RuntimeError):
    """A worker process died under its work. The command line prints its one line and exits with 1."""


class UnfinishedError(RuntimeError):
    """Work that was given so much time, and goes on when called again. One line, and exit code 3."""


def printable(text: str, limit: int = 1000) -> str:
    r"""Text of somebody else on one line that is safe to print: no control character, no surrogate, no change of order.

    >>> printable("red \x1b[31m\nand \ud800")
    'red ?[31m and ?'
    """
    line = " ".join(text[: 2 * limit].split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


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
