"""Detectors beside a training run: rows in as they are logged, new alarms out.

Rules, in addition to those of `readers`:

one row a step   a value that comes for a step that was handed over already is late: an evaluation goes
                 into the next row, anything else is dropped and counted
a step back      a signal that goes back to an earlier step is a run that was resumed: detectors are reset
alarms           as under the monitor protocol: new where the row before had none, and none came in the
                 20 steps before (`replay.rising_edges`)
crashes          a detector that raises, hangs, or returns something that is not a verdict, is reported once and left
                 out; the others and the training go on
processes        a detector that is named and not built in has a process of its own, as `sandbox` runs it
"""

import copy
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwreck.evaluation.constants import REFRACTORY
from trainwreck.evaluation.dataset.schema import BY_NAME, EVALUATIONS
from trainwreck.evaluation.dataset.trace import LISTS
from trainwreck.evaluation.detectors.base import Context, Detector, Verdict, normalise
from trainwreck.evaluation.detectors.registry import is_builtin, known_detector, load_detector
from trainwreck.evaluation.errors import InputError, printable, printable_error
from trainwreck.evaluation.live.columns import Columns, Values, as_row
from trainwreck.evaluation.logs.log import checked_step
from trainwreck.evaluation.logs.names import Target, parse_mapping
from trainwreck.evaluation.logs.numbers import Numbers
from trainwreck.evaluation.logs.rows import flat
from trainwreck.evaluation.replay.alarms import CRASHED
from trainwreck.evaluation.replay.replay import detector_name, distinct, is_isolated

PATIENCE = 50  # rows after which a signal that has not come is reported missing

logger = logging.getLogger("trainwreck")


@dataclass(frozen=True)
class Alarm:
    """A new alarm. causes: as the detector names them, the likeliest first. signals: the scalars of the row."""

    detector: str
    step: int
    score: float
    causes: tuple[str, ...] = ()
    rule: str = ""
    signals: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        causes = f"; likely {', '.join(self.causes)}" if self.causes else ""
        shown = [f"{name} {self.signals[name]:.4g}" for name in ("loss", "grad_norm", "lr") if name in self.signals]
        return f"{self.detector}: alarm at step {self.step} ({', '.join(shown)}; score {self.score:.4g}{causes})"

    def to_dict(self) -> dict[str, Any]:
        """For strict JSON: a number that is not finite is the string NaN, Infinity or -Infinity."""
        return {
            "detector": self.detector,
            "step": self.step,
            "score": strict(self.score),
            "causes": list(self.causes),
            "rule": self.rule,
            "signals": {name: strict(value) for name, value in self.signals.items()},
        }


def strict(value: float) -> float | str:
    """A number as strict JSON has it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


class Monitor:
    """Any detectors on a live run.

    detectors: names (`"zclip"`, `"mine.py:Mine"`), classes or objects, one or several. on_alarm: called
    with each new `Alarm`. mapping: names of your own to signals, as `{"my_loss": "loss"}`. context: the
    declared configuration, as `reset` gets it. say: called with a line on what is missing or went wrong;
    by default a warning of the logger "trainwreck". InputError for a detector or mapping that is none.

    >>> monitor = Monitor("nonfinite_loss")
    >>> monitor.update({"train/loss": 3.5}, step=1)
    []
    >>> print(*monitor.update({"train/loss": float("nan"), "lr": 0.1}, step=2))
    nonfinite_loss: alarm at step 2 (loss nan, lr 0.1; score 1)
    """

    def __init__(
        self,
        detectors: str | Detector | type[Detector] | Sequence[str | Detector | type[Detector]],
        on_alarm: Callable[[Alarm], object] | None = None,
        *,
        mapping: Mapping[str, str] | None = None,
        context: Context | None = None,
        say: Callable[[str], object] = logger.warning,
    ) -> None:
        one = isinstance(detectors, (str, type)) or not isinstance(detectors, Sequence)
        chosen: Sequence[Any] = [detectors] if one else detectors  # type: ignore[assignment]
        self.seats = [_Seat(detector, context) for detector in chosen]
        for seat, name in zip(self.seats, distinct([seat.name for seat in self.seats]), strict=True):
            seat.name = name
        if not self.seats:
            raise InputError("detectors: none is not allowed; allowed: one or more")
        self.on_alarm, self.say = on_alarm, say
        words = parse_mapping([f"{column}={signal}" for column, signal in (mapping or {}).items()])
        self._columns, self._stepless = Columns(words), Columns(words, has_step=False)
        self.rows = 0
        self.last_step: int | None = None
        self.counts: Counter[str] = Counter()  # late values and resumes
        self._latest: dict[Target, int] = {}
        self._carried: Values = {}
        self._widths: dict[str, int] = {}
        self._named: set[str] = set()  # signals that were logged so far
        self._told = self._lost = False

    @property
    def crashed(self) -> dict[str, str]:
        """Detectors that were left out, and why."""
        return {seat.name: seat.crash for seat in self.seats if seat.crash}

    def update(self, row: Mapping[str, Any], step: int | None = None) -> list[Alarm]:
        """The new alarms of a row of your log.

        row: name to number (or one-element tensor), list of numbers, or dict of these; names as trainers
        give them, see docs/logs.md; what is no signal is left alone. step: of the row, where no entry of it is.
        InputError for a row with values and no step, a negative step, or text where a number belongs.
        """
        cells = flat({name: _plain(name, cell) for name, cell in flat(row).items()})
        place = f"row {self.rows + 1}"
        if step is not None:
            _, values = self._stepless.read(cells, Numbers(), place)
            at: int | None = checked_step(int(step), place)
        else:
            try:
                at, values = self._columns.read(cells, Numbers(), place)
            except InputError:
                if self._columns.choice is not None:
                    raise
                raise InputError(f"{place}: no step; allowed: an entry 'step', or update(row, step=...)") from None
        if at is None or not values:
            if not self._named and not self._lost:
                self._lost = True
                self.say(f"no known signal among {', '.join(map(repr, cells))}; name yours with a mapping")
            return []
        return self.see(at, values)

    def see(self, step: int, values: Mapping[Target, float]) -> list[Alarm]:
        """The new alarms of a row whose columns are known."""
        if any(step < self._latest.get(target, -1) for target in values):
            self._resume(step)
        elif self.last_step is not None and step <= self.last_step:
            self._late(values)
            return []
        row = as_row(step, self._carried | dict(values), self._widths)
        self._carried = {}
        self.rows += 1
        self.last_step = step
        self._latest |= dict.fromkeys(values, step)
        self._named |= {target.signal for target in values}
        found = [alarm for seat in self.seats if (alarm := seat.see(row, self.say))]
        if self.rows == PATIENCE:
            self._tell()
        if self.on_alarm:
            for alarm in found:
                self.on_alarm(alarm)
        return found

    def close(self) -> None:
        """Report signals that never came, if the run was too short for that so far; end detectors' processes."""
        self._tell()
        for seat in self.seats:
            seat.close()

    def _resume(self, step: int) -> None:
        self.counts["resumed"] += 1
        self.say(f"step {step} after step {self.last_step}: the run was resumed; detectors are reset")
        self._latest, self._carried = {}, {}
        for seat in self.seats:
            seat.begin(self.say)

    def _late(self, values: Mapping[Target, float]) -> None:
        kept = {target: value for target, value in values.items() if target.signal in EVALUATIONS}
        self._carried |= kept
        if len(values) > len(kept):
            self.counts["late"] += len(values) - len(kept)

    def _tell(self) -> None:
        """One line, once: which signals the detectors read and the run does not log."""
        if self._told or not self.rows:
            return
        self._told = True
        parts = []
        for seat in self.seats:
            reads = [name for name in seat.reads if name in BY_NAME]
            missing = [name for name in reads if name not in self._named]
            if missing:
                worth = "all that it reads" if len(missing) == len(reads) else f"of {len(reads)}"
                parts.append(f"{seat.name} lacks {', '.join(missing)} ({worth})")
        if parts:
            self.say(f"not logged in {self.rows} rows: {'; '.join(parts)}")


class _Seat:
    """One detector, with the state of its alarms."""

    def __init__(self, detector: str | Detector | type[Detector], context: Context | None) -> None:
        self.make: Any = _opened(detector) if isinstance(detector, str) else detector
        self.context, self.crash = context, ""
        self.subject: Any = None
        self.raised = False
        self.edge: int | None = None
        if is_isolated(self.make):
            self.name = detector_name(detector)
            self.rule = str(self.make.about.get("rule", ""))
            self.reads: Sequence[str] = tuple(self.make.about.get("signals", ()))
            return
        for method in ("reset", "update"):
            if not callable(getattr(self.make, method, None)):
                raise InputError(f"detectors: {detector!r} has no {method}; allowed: a name, a class or an object")
        kind = self.make if isinstance(self.make, type) else type(self.make)
        self.name = detector_name(detector)
        self.rule = str(getattr(kind, "rule", ""))
        self.reads = tuple(getattr(kind, "signals", ()))

    def close(self) -> None:
        """End its process, where it has one; a row that comes later begins another."""
        if is_isolated(self.make):
            self.make.close()
            self.subject = None

    def begin(self, say: Callable[[str], object]) -> None:
        """A detector as new; nothing where an earlier one crashed."""
        if self.crash:
            return
        self.raised, self.edge = False, None
        try:
            if is_isolated(self.make):
                self.subject = self.make
                self.make.begin(self.context)
                return
            self.subject = self.make() if isinstance(self.make, type) else copy.deepcopy(self.make)
            self.threshold = getattr(self.subject, "default_threshold", None)
            self.subject.reset(copy.deepcopy(self.context))
        except (Exception, SystemExit) as error:
            self._crashed(error, "reset", say)

    def see(self, row: Mapping[str, Any], say: Callable[[str], object]) -> Alarm | None:
        """The alarm of a row, if it is a new one."""
        if self.subject is None:
            self.begin(say)
        if self.crash:
            return None
        seen = {name: list(value) if isinstance(value, list) else value for name, value in row.items()}
        # A detector is foreign code in someone's training: whatever it raises, sys.exit included, ends
        # the detector and not the training. KeyboardInterrupt is the user's and goes through.
        try:
            verdict = self.subject.update(seen)
            if not is_isolated(self.make):
                verdict = normalise(verdict, threshold=self.threshold, known=None)
        except (Exception, SystemExit) as error:
            self._crashed(error, f"step {row['step']}", say)
            return None
        return self._edge(row, verdict)

    def _edge(self, row: Mapping[str, Any], verdict: Verdict) -> Alarm | None:
        step: int = row["step"]
        rising = verdict.alarm and not self.raised
        self.raised = verdict.alarm
        if not rising or (self.edge is not None and step - self.edge < REFRACTORY):
            return None
        self.edge = step
        scalars = {name: value for name, value in row.items() if isinstance(value, float)}
        return Alarm(self.name, step, verdict.score, tuple(map(printable, verdict.causes)), self.rule, scalars)

    def _crashed(self, error: BaseException, where: str, say: Callable[[str], object]) -> None:
        self.crash = (
            printable(str(error).removeprefix(f"{CRASHED}: ")) if is_isolated(self.make) else printable_error(error)
        )
        self.close()
        say(f"detector {self.name}: crashed at {where} ({self.crash}); the others go on without it")


def _opened(name: str) -> Any:
    if is_builtin(name) or known_detector(name) is not None:  # the second lacks a library
        return load_detector(name)
    from trainwreck.evaluation.replay.sandbox.opening import open_detector

    return open_detector(name)


def _plain(name: str, cell: Any) -> Any:
    """Numbers out of a tensor or an array; one element is a number, but for a signal that is a list."""
    found = cell.tolist() if hasattr(cell, "tolist") else cell
    while name not in LISTS and isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found
