"""Python detectors in a process of their own: the harness's side of `wire`."""

import json
import os
import sys
import tempfile
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from trainwreck.evaluation.detectors.base import OutputError, Verdict, normalise
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.alarms import Transcript
from trainwreck.evaluation.replay.sandbox import wire
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.packing import layout_of, records
from trainwreck.evaluation.replay.sandbox.process import FailedError, Process, brief
from trainwreck.evaluation.replay.sandbox.talk import Asked, beginning
from trainwreck.evaluation.replay.status import FAILURES_OF_A_DETECTOR, GARBAGE, MEMORY

RUNNER = "trainwreck.evaluation.replay.sandbox.runner"


class PythonTalk:
    """A Python detector in a process of its own. what: as `runner.Runner` loads it.

    Raises InputError where it can't be loaded, FailedError where its process fails before it is.
    """

    def __init__(self, what: Mapping[str, Any], limits: Limits) -> None:
        self._limits = limits
        with tempfile.TemporaryFile() as file:
            os.ftruncate(file.fileno(), wire.Slots.size(limits.batch))
            self._slots = wire.Slots(file.fileno(), limits.batch)
            words = (os.getpid(), int(2 * limits.memory_mb * 2**20), file.fileno(), limits.batch)
            command = [sys.executable, "-P", "-m", RUNNER, *map(str, words)]
            self._process = Process(command, limits, pass_fds=(file.fileno(),))
        with beginning(self):
            about = self._ask(wire.LOAD, what, wire.LOADED)
            self.about: dict[str, Any] = about if isinstance(about, dict) else {}

    def replay(self, asked: Asked, heard: Transcript) -> int | None:
        self._process.forget()
        layout = layout_of(asked.trace)
        self._ask(wire.RESET, {"context": asked.context, "layout": layout.widths}, wire.READY)
        rows = records(asked.trace, layout, asked.profile, asked.k)
        while batch := list(islice(rows, self._limits.batch)):
            self._slots.clear()
            message = wire.message(wire.ROWS, b"".join(record for _, record in batch))
            failure = None
            try:
                self._expect(self._send(message, self._limits.row_seconds), wire.ANSWERED)
            except FailedError as error:  # what was said before it still counts
                failure = error
            answered = min(self._answered(), len(batch))
            for at, (step, _) in enumerate(batch[:answered]):
                try:
                    heard.add(step, *self._verdict(at, asked.known))
                except OutputError as error:
                    raise FailedError(GARBAGE, str(error), alive=failure is None or failure.alive) from None
            if failure is not None:
                raise failure
            if answered < len(batch):
                raise FailedError(GARBAGE, f"{answered} answers to {len(batch)} rows")
        size = self._ask(wire.FINISH, None, wire.FINISHED)
        return size if isinstance(size, int) else None

    def last_lines(self) -> tuple[str, ...]:
        return self._process.last_lines()

    def close(self) -> None:
        self._process.close()
        self._slots.close()

    def _verdict(self, at: int, known: Collection[str] | None) -> tuple[Verdict, int]:
        score, alarm, nanoseconds, causes = self._slots.get(at)
        return normalise(Verdict(score, alarm, causes), threshold=None, known=known), nanoseconds

    def _ask(self, kind: bytes, facts: Any, expected: bytes) -> Any:
        message = wire.message(kind, json.dumps(facts).encode())
        payload = self._expect(self._send(message, self._limits.start_seconds), expected)
        return _decoded(payload) if payload else None

    def _send(self, message: bytes, seconds: float) -> bytes:
        return self._process.ask(message, wire.whole, seconds, self._answered)

    def _answered(self) -> int:
        # Never more than it was asked, or one that counts up for ever would never be late.
        return min(self._slots.count(), self._limits.batch)

    def _expect(self, answer: bytes, expected: bytes) -> bytes:
        kind, payload = answer[:1], answer[wire.HEAD.size :]
        if kind == expected:
            return payload
        said = _decoded(payload) if kind == wire.FAILED else None
        if not (isinstance(said, list) and len(said) == 2):
            raise FailedError(GARBAGE, f"its process answered {brief(answer)}")
        failed, reason = map(str, said)
        if failed == wire.INPUT:
            raise InputError(reason)
        # After it ran out of memory it may be in any state.
        raise FailedError(failed if failed in FAILURES_OF_A_DETECTOR else GARBAGE, reason, alive=failed != MEMORY)


def _decoded(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        raise FailedError(GARBAGE, f"its process answered {brief(payload)}") from None
