"""The process in which a Python detector runs: `python -m trainwreck.evaluation.replay.sandbox.runner`.

It is given a detector, then runs, row by row; see `wire` for what is said. A detector never sees the pipes: its
input is empty and what it prints goes to the error stream.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from time import perf_counter_ns
from typing import Any, BinaryIO

from trainwreck.evaluation.detectors.base import OutputError, normalise
from trainwreck.evaluation.detectors.registry import as_detector, check_settings, load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.sandbox import wire
from trainwreck.evaluation.replay.sandbox.confine import confine
from trainwreck.evaluation.replay.sandbox.record import Layout
from trainwreck.evaluation.replay.state_size import state_bytes
from trainwreck.evaluation.replay.status import raised

ABOUT = ("rule", "source", "blind_spots", "causes", "signals")


def main() -> None:
    """Words of the command: the parent's process id, bytes of memory, the file of the slots, rows of a batch."""
    parent, memory, slots, batch = map(int, sys.argv[1:])
    sys.argv[1:] = []
    confine(parent, memory)
    given, answers = os.fdopen(os.dup(0), "rb", 2**17), os.dup(1)
    with open(os.devnull, "rb") as empty:  # noqa: PTH123
        os.dup2(empty.fileno(), 0)
    os.dup2(2, 1)
    runner = Runner(wire.Slots(slots, batch), lambda kind, payload: os.write(answers, wire.message(kind, payload)))
    os.close(slots)
    runner.serve(given)
    os._exit(0)  # at once, whatever threads the detector began


class Runner:
    """One detector, and run after run through it. answer: called with kind and payload of each reply."""

    def __init__(self, slots: wire.Slots, answer: Callable[[bytes, bytes], object]) -> None:
        self._slots, self._answer = slots, answer
        self._make: Callable[[], Any] = object
        self._subject: Any = None
        self._threshold: float | None = None
        self._layout = Layout({})
        self._left = 0  # rows of the batch under way that are still in the pipe

    def serve(self, given: BinaryIO) -> None:
        """Until the input ends."""
        while len(head := given.read(wire.HEAD.size)) == wire.HEAD.size:
            kind, length = wire.HEAD.unpack(head)
            try:
                if kind == wire.ROWS:
                    self._rows(given, length // self._layout.size)
                else:
                    self._other(kind, json.loads(given.read(length) or b"null"))
            # Foreign code: whatever it raises is told.
            except BaseException as error:
                if kind == wire.ROWS:
                    given.read(self._left * self._layout.size)
                wrong = kind == wire.LOAD and isinstance(error, InputError)
                if not (wrong or isinstance(error, OutputError)):  # whose lines say it all
                    traceback.print_exc()
                failed = (wire.INPUT, str(error)) if wrong else raised(error)
                self._answer(wire.FAILED, json.dumps(failed).encode())

    def _other(self, kind: bytes, facts: Any) -> None:
        if kind == wire.LOAD:
            self._answer(wire.LOADED, json.dumps(self._load(facts)).encode())
        elif kind == wire.RESET:
            self._layout = Layout(facts["layout"])
            self._subject = self._make()
            self._threshold = getattr(self._subject, "default_threshold", None)
            self._subject.reset(facts["context"])
            self._answer(wire.READY, b"")
        else:
            self._answer(wire.FINISHED, json.dumps(state_bytes(self._subject)).encode())

    def _rows(self, given: BinaryIO, count: int) -> None:
        self._left = count
        layout, put, update, threshold = self._layout, self._slots.put, self._subject.update, self._threshold
        for at in range(count):
            row = layout.row(given.read(layout.size))
            self._left -= 1
            start = perf_counter_ns()
            output = update(row)
            spent = perf_counter_ns() - start
            verdict = normalise(output, threshold=threshold, known=None)
            put(at, verdict.score, verdict.alarm, spent, verdict.causes)
        self._answer(wire.ANSWERED, b"")

    def _load(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Make ready what `LOAD` names; what it says of itself. Raises InputError."""
        name, settings = facts["name"], facts["settings"]
        if "entry_point" in facts:
            value, group = facts["entry_point"]
            found = as_detector(EntryPoint(name, value, group).load(), f"plug-in {name}", value.rpartition(":")[2])
        else:
            file, separator, _ = name.rpartition(":")
            if separator:  # a file's neighbours are found as if it were run as a script
                sys.path.insert(0, str(Path(file).parent))
            found = load_detector(name)
        check_settings(found, settings, f"detector {name}")
        self._make = (lambda: found(**settings)) if settings else found
        return {key: _plain(value) for key in ABOUT if (value := getattr(found, key, None))}


def _plain(value: object) -> Any:
    """Text, or a list of texts; whatever a class says of itself goes to JSON."""
    return [str(item) for item in value] if isinstance(value, (tuple, list, set, frozenset)) else str(value)


if __name__ == "__main__":
    main()
