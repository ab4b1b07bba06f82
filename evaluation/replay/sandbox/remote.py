"""A detector in another process: the exchange of the lines of `messages`, run by run."""

from collections.abc import Collection, Iterator, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.detectors.base import Context, OutputError, Row, Verdict, normalise
from trainwreck.evaluation.errors import unknown
from trainwreck.evaluation.replay.alarms import GARBAGE, Transcript
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import NAMES, rows
from trainwreck.evaluation.replay.sandbox import messages
from trainwreck.evaluation.replay.sandbox.columns import batches, of_rows
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.process import FailedError, Process
from trainwreck.evaluation.replay.sandbox.readable import files_of

GRACE = 0.5  # seconds to end after its input has


class Request(NamedTuple):
    """A replay. known: cause ids that may be named, None for any; the others as in `replay`."""

    trace: Trace
    profile: str
    context: Context | None
    k: int
    known: Collection[str] | None


class Remote:
    """A process with one detector in it.

    words: of its command, the program by its full path. files: of the detector, whose folders it may read.

    Raises InputError where it says that the detector can't be loaded, FailedError where it does not answer as it must.
    """

    def __init__(self, words: Sequence[str], limits: Limits, files: Sequence[str] = ()) -> None:
        self._limits = limits
        self._process = Process(words, limits, files_of(words, files, limits.readable))
        try:
            self.about, self._packed = messages.about(self._ask(messages.hello()))
            self._signals: list[str] = self.about.get("signals", list(NAMES))
            for name in () if self._packed else self._signals:
                if name not in NAMES:
                    raise FailedError(GARBAGE, str(unknown("signals", name, NAMES)))
        except BaseException as error:  # an interrupt too
            self.close()
            if isinstance(error, FailedError):
                error.printed = self.last_lines()
            raise

    def replay(self, request: Request, transcript: Transcript) -> int | None:
        """Show a run and write down what is said, as far as it comes. Raises InputError, FailedError.

        Bytes of the detector's state at the end; None where it can't be measured.
        """
        self.begin(request.context)
        for steps, message in self._questions(request):
            self._batch(steps, message, request.known, transcript)
        if self._packed:
            return messages.state_bytes(self._ask(messages.end()))
        self._process.check_silent()
        return None

    def begin(self, context: Context | None) -> None:
        """Begin a run. Raises InputError, FailedError."""
        self._process.forget()
        messages.answer(self._ask(messages.reset(context)), "ready")

    def update(self, row: Row) -> Verdict:
        """Its verdict on a row of a run that is under way. Raises FailedError, OutputError."""
        step, values = row["step"], {name: row.get(name) for name in NAMES}
        if self._packed:
            held = {name: value for name, value in values.items() if value is not None}
            widths = {name: len(value) if isinstance(value, list) else None for name, value in held.items()}
            _, message = of_rows([held | {"step": step}], widths)
        else:
            message = messages.row({"step": step} | {name: values[name] for name in self._signals})
        (line,) = self._process.ask(message, self._limits.row_seconds)
        return normalise(messages.verdict(line, step), threshold=None, known=None)

    @property
    def confinement(self) -> dict[str, Any]:
        """Layers of its confinement: True or a version where one holds, else why it does not."""
        return self._process.layers

    @property
    def until(self) -> float:
        """The time, of `monotonic`, at which it is out of time."""
        return self._process.until

    @until.setter
    def until(self, time: float) -> None:
        self._process.until = time

    def last_lines(self) -> tuple[str, ...]:
        """The end of what it printed in this run."""
        return self._process.last_lines()

    def close(self) -> None:
        """End the process."""
        self._process.close(GRACE)

    def _questions(self, request: Request) -> Iterator[tuple[list[int], bytes]]:
        """Steps and message of each batch of rows."""
        if self._packed:
            yield from batches(request.trace, request.profile, request.k, self._limits.batch)
            return
        trace = request.trace
        about = {"run_id": trace.run_id, "objective": trace.objective}
        for seen in observe(rows(trace), request.profile, k=request.k, **about):
            step = seen["step"]
            yield [step], messages.row({"step": step} | {name: seen[name] for name in self._signals})

    def _batch(self, steps: list[int], message: bytes, known: Collection[str] | None, transcript: Transcript) -> None:
        wrong: FailedError | None = None
        answers, start = self._process.ask(message, self._limits.row_seconds, len(steps)), perf_counter_ns()
        try:
            for step, line in zip(steps, answers, strict=True):
                spent = perf_counter_ns() - start
                try:
                    verdict = messages.verdict(line, step)
                    if wrong is None:
                        transcript.add(step, normalise(verdict, threshold=None, known=known), spent)
                except OutputError as error:  # the answers to the rest of the batch are still to come
                    wrong = wrong or FailedError(GARBAGE, str(error), alive=True)
                start = perf_counter_ns()
        except FailedError as error:
            if wrong is None:
                raise
            wrong.alive = error.alive
        if wrong is not None:
            raise wrong

    def _ask(self, message: bytes) -> bytes:
        (line,) = self._process.ask(message, self._limits.start_seconds)
        return line
