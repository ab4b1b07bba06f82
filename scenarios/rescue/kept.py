"""Outcomes in a file that is gone on with: a line on how they were played, then a line an episode.

Lines are added when their episodes have ended. A process that is killed leaves whole lines and at most one that was
written in part, which is cut off: its episode is played again, and ends the same. Other things that are trained one
by one are kept so as well (`Lines`).
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import check_regular, write_text
from trainwreck.scenarios.rescue.outcomes import Outcome

FOREIGN = "not a file of episodes; allowed: one that `rescue` wrote, or another --out"


class Lines:
    """JSON lines in a file, after a head. Raises InputError for one of another head, and for one that is no such file.

    head: how everything in it is made, the first line. contents: what the file has, a value a line, as `parsed` has it.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path, self.head = path, head
        first = json.dumps(head)
        lines, whole = _read(path)
        if not lines and not first.encode().startswith(whole):
            raise InputError(f"{path}: {FOREIGN}")
        if lines and lines[0] != first:
            raise InputError(f"{path}: is of {lines[0][:200]}; allowed: {first}, or another --out")
        self.contents = [_value(path, number, line, self.parsed) for number, line in enumerate(lines[1:], start=2)]
        size = sum(len(line.encode()) + 1 for line in lines)
        self._append(b"" if lines else f"{first}\n".encode(), size)

    @staticmethod
    def parsed(content: Any) -> Any:
        """What a line holds. KeyError, TypeError, ValueError and AttributeError say that it is damaged."""
        return content

    def append(self, contents: Sequence[Any]) -> None:
        """Write down what has ended."""
        self._append("".join(json.dumps(one) + "\n" for one in contents).encode(), None)

    def _append(self, added: bytes, size: int | None) -> None:
        """Add bytes at the end, or after the first `size` bytes, and wait for the disk."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if size is not None:
                    file.truncate(size)
                file.write(added)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self.path}: can't be written ({error.strerror or error})") from error


class Kept(Lines):
    """Outcomes in a file. Raises InputError as `Lines`. outcomes: what the file has."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        super().__init__(path, head)
        self.outcomes: list[Outcome] = self.contents

    @staticmethod
    def parsed(content: Any) -> Outcome:
        """The outcome of a line."""
        return Outcome.from_json(content)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Write down episodes that have ended."""
        self.append([outcome.to_json() for outcome in outcomes])
        self.outcomes += outcomes

    def replace(self, outcome: Outcome) -> None:
        """Write down an episode in the place of what was written of it before."""
        mine = outcome.policy, outcome.run_id
        self.outcomes = [one for one in self.outcomes if (one.policy, one.run_id) != mine] + [outcome]
        write(self.path, self.head, self.outcomes)


def write(path: Path, head: dict[str, Any], outcomes: Sequence[Outcome]) -> None:
    """Write a whole file at once."""
    write_text(path, "".join([json.dumps(head) + "\n", *map(_line, outcomes)]))


def read(path: Path) -> tuple[dict[str, Any], list[Outcome]]:
    """Profile and block of a file of episodes, and its outcomes. Raises InputError for what is no such file."""
    if not path.exists():
        raise InputError(f"{path}: no such file; allowed: one that --out wrote")
    lines, _ = _read(path)
    try:
        head = dict(json.loads(lines[0]))
    except (IndexError, TypeError, ValueError, RecursionError):
        raise InputError(f"{path}: {FOREIGN}") from None
    return head, [_value(path, number, line, Outcome.from_json) for number, line in enumerate(lines[1:], start=2)]


def _read(path: Path) -> tuple[list[str], bytes]:
    """The whole lines of a file, and what follows them; nothing where there is no file."""
    check_regular(path)
    try:
        content = path.read_bytes()
        *lines, rest = content.split(b"\n")
        return [line.decode() for line in lines], rest
    except FileNotFoundError:
        return [], b""
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: {FOREIGN}") from None


def _value(path: Path, number: int, line: str, parsed: Callable[[Any], Any]) -> Any:
    try:
        return parsed(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: line {number} is damaged, no episode; allowed: another --out") from None


def _line(outcome: Outcome) -> str:
    return json.dumps(outcome.to_json()) + "\n"
