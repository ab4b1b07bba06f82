"""The one exception that means: the input is wrong, not the program."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input from a user. The command line prints its one line and exits with 2."""


def unknown(setting: str, value: object, allowed: Iterable[str]) -> InputError:
    """An InputError that names setting, value and what is allowed, with the nearest match."""
    names = list(allowed)
    close = get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return InputError(f"{setting}: {value!r} is not allowed{hint}; allowed: {', '.join(names)}")
