"""What an engine is: it takes calls and reports how they ended."""

from collections.abc import Sequence
from typing import Protocol

from trainwreck.scenarios.datasets.engines.call import Call, Ended


class Engine(Protocol):
    """Workers at work. It never tries a call again and has no order of its own: the dispatcher does both."""

    @property
    def slots(self) -> int:
        """Calls that may be under way at once."""

    @property
    def refill(self) -> int:
        """It wants more once no more than so many are under way."""

    @property
    def workers(self) -> int | None:
        """That compute at once; None where others decide."""

    @property
    def doubles(self) -> bool:
        """Whether a slow call may be made by an idle worker as well."""

    def submit(self, calls: Sequence[Call]) -> None:
        """Take calls, as many as there are free slots at most."""

    def ended(self, seconds: float | None) -> list[Ended]:
        """Calls that have ended; waits for the first, for so long at most."""

    def cancel(self, ticket: int) -> None:
        """Give up a call; its end is not reported any more."""

    def close(self) -> None:
        """Give up every call and let the workers go."""


class Settings(Protocol):
    """What a user says of an engine, in one small class each."""

    @property
    def name(self) -> str:
        """As on the command line."""

    def check(self) -> None:
        """InputError where it can't be started here: a library or a program is missing."""

    def fit(self, least: int, device: str) -> "Settings":
        """These, with as many workers as memory has room for where the user leaves that open.

        least: bytes that a worker needs at least.
        """

    def share(self, device: str) -> int | None:
        """Bytes that one worker may take; None where there is no limit."""

    def start(self, pieces: int) -> Engine:
        """Begin. pieces: calls that there will be."""
