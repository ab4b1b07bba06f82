"""The page of runs under way, and the events that it receives."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError, WorkerLostError
from trainwreck.evaluation.pages.figures import reduced
from trainwreck.evaluation.pages.live_page.page import Show, render
from trainwreck.evaluation.pages.live_page.server import serving
from trainwreck.evaluation.pages.live_page.stream import Stream
from trainwreck.evaluation.pages.numbers import written
from trainwreck.evaluation.replay.rows import logged_at


class LivePage:
    """A page that is open at `address`."""

    def __init__(self, show: Show, stream: Stream, address: str) -> None:
        self.show, self.stream, self.address = show, stream, address
        self.ended = False

    def block(self, role: str, trace: Trace) -> None:
        """Show the steps that a run has just done."""
        self.stream.add(block(self.show, role, trace))

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Training has ended; facts: what `run_live` returns."""
        self._end({"state": "finished", "facts": dict(facts)})

    def stop(self, state: str, reason: str = "") -> None:
        """Training has ended before its end: "interrupted", or "failed" with a reason. Nothing after `finish`."""
        self._end({"state": state, "reason": reason})

    def _end(self, event: dict[str, Any]) -> None:
        if not self.ended:
            self.ended = True
            self.stream.add(event)


@contextmanager
def serve(show: Show, port: int = 0) -> Iterator[LivePage]:
    """Open a page at a port of this machine; an error that ends the context early is shown on it.

    InputError for a port that can't be had.
    """
    stream = Stream()
    with serving(render(show, stream.id), stream, port) as address:
        page = LivePage(show, stream, address)
        try:
            yield page
        except (KeyboardInterrupt, GeneratorExit):
            page.stop("interrupted")
            raise
        except BaseException as error:
            page.stop("failed", reason(error))
            raise


def reason(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    plain = isinstance(error, InputError | WorkerLostError) and lines
    return lines[0] if plain else ": ".join([type(error).__name__, *lines[:1]])


def block(show: Show, role: str, trace: Trace) -> dict[str, Any]:
    """The event of some steps of a run: a curve for each signal shown, rows by layer of the most diagnostic one."""
    event: dict[str, Any] = {"role": role, "step": int(trace.steps[-1]) + 1, "curves": {}, "rows": None}
    for name in show.signals:
        logged = logged_at(trace, name)
        shown = slice(None) if logged is None else logged
        values = reduced(trace, name)[shown]
        event["curves"][name] = [trace.steps[shown].tolist(), [written(float(value)) for value in values]]
    if show.layered:
        rows = [[written(float(value)) for value in row] for row in trace[show.telling].T]
        event["rows"] = [trace.steps.tolist(), rows]
    return event
