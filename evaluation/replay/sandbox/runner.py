"""The process in which a Python detector runs: `python -m trainwreck.evaluation.replay.sandbox.runner WHAT`.

It answers the questions of `messages`, and takes rows in batches. A detector never sees the pipes: its input is empty
and what it prints goes to the error stream.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from trainwreck.evaluation.detectors.base import OutputError, normalise
from trainwreck.evaluation.detectors.registry import as_detector, check_settings, load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.alarms import raised
from trainwreck.evaluation.replay.rows import LoggedRow
from trainwreck.evaluation.replay.sandbox import messages
from trainwreck.evaluation.replay.sandbox.columns import Unpacking
from trainwreck.evaluation.replay.state_size import state_bytes

_json = json.JSONEncoder(separators=(",", ":")).encode
ABOUT = ("rule", "source", "blind_spots", "causes", "signals")


def main(made: "type[Runner] | None" = None) -> None:
    """The word of the command is JSON: which detector, as `Runner` takes it. made: a Runner of another kind."""
    what = json.loads(sys.argv[1])
    sys.argv[1:] = []
    questions, answers = os.fdopen(os.dup(0), "rb", 2**17), os.dup(1)
    with open(os.devnull, "rb") as empty:  # noqa: PTH123
        os.dup2(empty.fileno(), 0)
    os.dup2(2, 1)
    (made or Runner)(what, lambda answer: os.write(answers, answer.encode() + b"\n")).serve(questions)
    os._exit(0)  # at once, whatever threads the detector began


class Runner:
    """One detector, and run after run through it.

    what: `name` as `load_detector` takes it, `settings` that it is made with, and of a plug-in its `entry_point`, value
    and group. answer: called with each reply, JSON.
    """

    def __init__(self, what: Mapping[str, Any], answer: Callable[[str], object]) -> None:
        self._what, self._answer = what, answer
        self._make: Callable[[], Any] = object
        self._subject: Any = None
        self._threshold: float | None = None

    def serve(self, questions: Iterable[bytes]) -> None:
        """Until the input ends."""
        unpacking = Unpacking()
        for line in questions:
            question = {"type": "rows"}
            try:
                if (rows := unpacking.rows(line)) is not None:
                    self._rows(rows)
                    continue
                question = json.loads(line)
                self._reply(question)
            # Foreign code: whatever it raises is reported.
            except BaseException as error:
                wrong = question["type"] == "hello" and isinstance(error, InputError)
                if not (wrong or isinstance(error, OutputError)):  # whose lines say it all
                    traceback.print_exc()
                kind, reason = (messages.INPUT, str(error)) if wrong else raised(error)
                self._answer(_json({"type": "failed", "kind": kind, "reason": reason}))

    def _reply(self, question: dict[str, Any]) -> None:
        kind = question["type"]
        if kind == "hello":
            self._answer(_json({"type": "hello", "version": messages.VERSION, "batches": True} | self._load()))
        elif kind == "reset":
            self._subject = self._make()
            self._threshold = getattr(self._subject, "default_threshold", None)
            self._subject.reset(messages.numbers(question["context"]))
            self._answer(_json({"type": "ready"}))
        else:
            self._answer(_json({"type": "ended", "state_bytes": state_bytes(self._subject)}))

    def _rows(self, rows: Iterable[LoggedRow]) -> None:
        update, threshold, answer = self._subject.update, self._threshold, self._answer
        for row in rows:
            step = row["step"]
            score, alarm, causes = normalise(update(row), threshold=threshold, known=None)
            if not (alarm or causes):
                answer(f'{{"type":"verdict","step":{step},"score":{score!r}}}')
                continue
            answer(_json({"type": "verdict", "step": step, "score": score, "alarm": alarm, "causes": causes}))

    def _load(self) -> dict[str, Any]:
        """Make the detector ready; what it says of itself. Raises InputError."""
        name, settings = self._what["name"], self._what["settings"]
        if "entry_point" in self._what:
            value, group = self._what["entry_point"]
            found = as_detector(EntryPoint(name, value, group).load(), f"plug-in {name}", value.rpartition(":")[2])
        else:
            file, separator, _ = name.rpartition(":")
            if separator:  # a file's neighbours are found as if it were run as a script
                sys.path.insert(0, str(Path(file).parent))
            found = load_detector(name)
        check_settings(found, settings, f"detector {name}")
        self._make = (lambda: found(**settings)) if settings else found
        return {key: _plain(value, messages.ABOUT[key]) for key in ABOUT if (value := getattr(found, key, None))}


def _plain(value: object, kind: type) -> Any:
    """Text, or a list of texts; whatever a class says of itself goes to JSON."""
    if kind is str:
        return str(value)
    return [str(item) for item in value] if isinstance(value, (tuple, list, set, frozenset)) else [str(value)]


if __name__ == "__main__":
    main()
