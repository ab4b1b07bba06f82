"""What the learned policy sees of a run: when something has changed, and numbers that describe it.

    windows of ten rows, the last one ends now      ... | w-3 | w-2 | w-1 | w |
    surprise of the loss    mean of w less that of w-1, less the median of the two changes before
    shift of the gradients  median log norm of w, less the median of those of the three windows before

Nothing is decided in the first part of a run, in which every loss falls steeply, and at most at `LOOKS` moments: where
the last window has a loss that is not finite, a surprise, a shift or another step of the rate than the schedule had
before, or where `playbook` alarms. Loads no training.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trainwreck.evaluation.detectors.base import Row
from trainwreck.scenarios.rescue.observation import Observation
from trainwreck.scenarios.rescue.watcher import ALARM, Watcher

WINDOW = 10  # rows
FEWEST = 6  # windows before anything is decided
BEGINNING = 0.3  # of the run, in which nothing is decided
SURPRISE = 0.12  # nats
SHIFT = 0.4  # of the log of the gradient norm
STEP = 0.3  # of the log of the rate
LOOKS = 2  # moments in a run
NAMED = 2  # causes that count, the likeliest first
WIDEST = 20.0
SEEN = (
    "share of the run", "look", "share not finite",
    "surprise of the loss", "change of the loss", "loss over its least", "loss over its first", "trend in the window",
    "shift of the gradients", "peak of the gradients", "trend of the gradients",
    "change of the validation loss", "validation loss over the loss",
    "step of the rate", "change of the rate",
    "alarm",
)  # fmt: skip


class Situation:
    """The state of one run.

    calls: cause id to the actions that its fault calls for, as `policies.treatment` has them.
    """

    def __init__(self, calls: Mapping[str, Sequence[str]]) -> None:
        self.calls = calls
        self.watcher = Watcher(ALARM)
        self.next, self.looks = 0, 0
        self.alarmed = False
        self.causes: tuple[str, ...] = ()

    def see(self, seen: Observation) -> np.ndarray | None:
        """Take in the rows since the last call; numbers where something is to be decided, as `names` has them."""
        new = [row for row in seen.history if row["step"] >= self.next]
        self.next = seen.step
        alarm, causes = self.watcher.see(new)
        self.alarmed, self.causes = self.alarmed or alarm, causes or self.causes
        count = len(seen.history) // WINDOW
        if count < FEWEST or seen.step < BEGINNING * seen.planned or self.looks >= LOOKS:
            return None
        with np.errstate(invalid="ignore"):
            found = dict.fromkeys(SEEN, 0.0) | _of_rows(seen.history[-count * WINDOW :])
        if not (
            alarm
            or found["share not finite"] > 0
            or abs(found["surprise of the loss"]) > SURPRISE
            or abs(found["shift of the gradients"]) > SHIFT
            or abs(found["step of the rate"]) > STEP
        ):
            return None
        self.looks += 1
        found |= {"share of the run": seen.step / seen.planned, "look": self.looks, "alarm": float(self.alarmed)}
        called = {action for cause in self.causes[:NAMED] for action in self.calls.get(cause, ())}
        values = [*found.values(), *(float(action in called) for action in actions_called(self.calls))]
        return np.asarray(np.clip(np.nan_to_num(np.array(values)), -WIDEST, WIDEST))


def actions_called(calls: Mapping[str, Sequence[str]]) -> list[str]:
    """Every action that a cause calls for, sorted."""
    return sorted({action for actions in calls.values() for action in actions})


def names(calls: Mapping[str, Sequence[str]]) -> list[str]:
    """What the numbers of `Situation.see` are."""
    return [*SEEN, *(f"called for: {action}" for action in actions_called(calls))]


def _of_rows(rows: Sequence[Row]) -> dict[str, float]:
    """What whole windows of rows tell, NaN where they do not."""
    loss = _windows(rows, "loss")
    grad = np.log(np.maximum(_windows(rows, "grad_norm"), 1e-12))
    rate = np.log(np.maximum(_windows(rows, "lr"), 1e-12))[:, -1]
    mean, norm = _reduced(np.mean, loss), _reduced(np.median, grad)
    change, before = np.diff(mean), float(np.median(norm[-4:-1]))
    checked = [value for value in _windows(rows, "validation_loss").ravel() if np.isfinite(value)]
    logged = [row["loss"] for row in rows[-WINDOW:] if row["loss"] is not None]
    steps = np.diff(rate)
    third = WINDOW // 3
    return {
        "share not finite": sum(not np.isfinite(value) for value in logged) / WINDOW,
        "surprise of the loss": float(change[-1] - np.median(change[-3:-1])),
        "change of the loss": float(change[-1]),
        "loss over its least": float(mean[-1] - np.nanmin(mean)) if np.isfinite(mean).any() else np.nan,
        "loss over its first": float(mean[-1] / mean[0]),
        "trend in the window": float(loss[-1, -third:].mean() - loss[-1, :third].mean()),
        "shift of the gradients": float(norm[-1] - before),
        "peak of the gradients": float(_reduced(np.max, grad)[-1] - before),
        "trend of the gradients": float(grad[-1, -third:].mean() - grad[-1, :third].mean()),
        "change of the validation loss": checked[-1] - checked[-2] if len(checked) > 1 else np.nan,
        "validation loss over the loss": checked[-1] - float(mean[-1]) if checked else np.nan,
        "step of the rate": float(steps[-1] - steps[-2]),
        "change of the rate": float(steps[-1]),
    }


def _windows(rows: Sequence[Row], signal: str) -> np.ndarray:
    """A signal by windows, NaN where nothing was logged. [windows, WINDOW]"""
    return np.array([row[signal] for row in rows], dtype=np.float64).reshape(-1, WINDOW)


def _reduced(how: Callable[[np.ndarray], np.floating], windows: np.ndarray) -> np.ndarray:
    """One number a window, of its finite values; NaN for one without any. [windows]"""
    finite = [window[np.isfinite(window)] for window in windows]
    return np.array([how(values) if len(values) else np.nan for values in finite])
