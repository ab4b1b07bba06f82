"""What has happened so far, for any number of readers, each at a place of its own."""

import json
import secrets
from collections.abc import Mapping
from threading import Condition
from typing import Any

MOST = 500  # events of one reply; the reader asks again for the rest


class Stream:
    """Events in order, of one writer.

    Nothing is kept of a reader: it names how many events it has, so one that comes late gets them all, and one that
    goes away leaves nothing behind.
    """

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)  # an address may come to be another stream's
        self._events: list[str] = []
        self._changed = Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event of what JSON has; ValueError for a NaN."""
        text = json.dumps(event, allow_nan=False)
        with self._changed:
            self._events.append(text)
            self._changed.notify_all()

    def since(self, place: int, patience: float = 0.0) -> str:
        """The events after the first `place`, as JSON: id, next (the place to ask from), events.

        Waits up to `patience` seconds for one, and no longer than until the stream is closed. Not for a place that
        the stream has not come to, which is that of a reader of another stream.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) != place or self._closed, patience)
            found = self._events[place : place + MOST]
        following = min(place, len(self._events)) + len(found)
        return f'{{"id": "{self.id}", "next": {following}, "events": [{", ".join(found)}]}}'

    def close(self) -> None:
        """No reader waits any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
