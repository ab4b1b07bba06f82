"""Entries of a board: their names, how each is made for a run, and what it says of itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import pandas as pd

from trainwreck.evaluation.constants import HEADLINE_COST, HEADLINE_PREVALENCE, PREVALENCES
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.detectors.registry import check_settings, is_builtin, load_detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.replay import Alarms, about, detector_name, is_isolated
from trainwreck.evaluation.scoring.reference import Baseline

if TYPE_CHECKING:
    from trainwreck.evaluation.leaderboard.shortcuts import Shortcut
    from trainwreck.evaluation.replay.sandbox.limits import Limits
    from trainwreck.evaluation.scoring.detector_seeds import Seeded

AnyDetector: TypeAlias = "str | Detector | type[Detector] | Seeded"
BLIND_POLICIES = ("clock", "periodic", "random")  # detectors of `detectors.sanity.blind` that are tuned


class Entry:
    """An entry of the board: its name, how to make it for a run, what it says of itself.

    oracle: of an oracle, its alarms on a row of the runs table. stack: ends its process, where it has one of its own.
    """

    def __init__(
        self,
        detector: AnyDetector,
        name: str,
        frame: Baseline,
        stack: ExitStack,
        limits: "Limits | None",
        isolate: bool,
    ) -> None:
        self.detector, self.name = detector, name
        seed: dict[str, int] = {}
        if is_seeded(detector):
            seed = {"seed": detector.seed}
            detector = detector.detector
        self.shortcut = False
        self.make: Any = None
        self.about: dict[str, Any] = {}
        self.oracle: Callable[[pd.Series, str], Alarms] | None = None
        if isinstance(detector, str) and not is_builtin(detector):
            from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS
            from trainwreck.evaluation.replay.oracles import ABOUT_ORACLES, ORACLES, oracle_alarms

            self.shortcut = detector in SHORTCUTS
            if seed and (self.shortcut or detector in ORACLES):
                raise InputError(f"detector-seeds: {detector!r} takes no seed; allowed: detectors whose class does")
            if self.shortcut:
                return
            if detector in ORACLES:
                self.oracle, self.about = partial(oracle_alarms, detector), dict(ABOUT_ORACLES)
                return
        subject = _opened(detector, limits, seed) if isinstance(detector, str) else detector
        self.about = about(subject)
        if is_isolated(subject):
            self.make = stack.enter_context(subject)
            return
        for method in ("reset", "update"):
            if not callable(getattr(subject, method, None)):
                raise InputError(f"detector: {self.name!r} has no {method}")
        self.make = _tuned(subject, frame) or subject
        if seed:
            if not isinstance(subject, type):
                raise InputError(f"detector-seeds: {entry_name(detector)} is made already; allowed: classes and names")
            check_settings(subject, seed, f"detector {entry_name(detector)}")
            self.make = partial(self.make, **seed)
        if isolate:
            if not isinstance(detector, str):
                raise InputError(f"isolate: {self.name!r} is an object of this process; allowed: detectors by name")
            from trainwreck.evaluation.replay.sandbox.opening import isolated_builtin

            settings = self.make.keywords if isinstance(self.make, partial) else {}
            self.make = stack.enter_context(isolated_builtin(detector, settings, limits))
            self.about |= self.make.about

    def maker(self, run: pd.Series, profile: str, shortcuts: "Mapping[str, Shortcut]") -> Any:
        """What `replay` takes for a run."""
        return shortcuts[str(self.detector)].maker(run, profile) if self.shortcut else self.make


def shortcuts_of(
    dataset: DataSet, entries: Sequence[Entry], frame: Baseline, profiles: Sequence[str], k: int
) -> "dict[str, Shortcut]":
    """The shortcuts among the entries, tuned; the entries then say so of themselves."""
    names = [str(entry.detector) for entry in entries if entry.shortcut]
    if not names:
        return {}
    from trainwreck.evaluation.leaderboard.shortcuts import tuned

    made = tuned(dataset, names, _clock_step(frame), profiles, k)
    for entry in entries:
        if entry.shortcut:
            entry.about = dict(made[str(entry.detector)].about)
    return made


def _opened(name: str, limits: "Limits | None", settings: Mapping[str, Any]) -> Any:
    """`open_detector`; a built-in one without the modules of the sandbox."""
    if is_builtin(name):
        return load_detector(name)
    from trainwreck.evaluation.replay.sandbox.opening import open_detector

    return open_detector(name, limits, settings)


def is_seeded(detector: object) -> "TypeGuard[Seeded]":
    """Whether it is a detector with a seed of its own."""
    if isinstance(detector, (str, type)):
        return False
    from trainwreck.evaluation.scoring.detector_seeds import Seeded

    return isinstance(detector, Seeded)


def entry_name(detector: object) -> str:
    """What a detector is called on a board and in stored alarms: of a file or a command without its folders."""
    if is_seeded(detector):
        return f"{entry_name(detector.detector)}, seed {detector.seed}"
    return detector_name(detector)


def _clock_step(frame: Baseline) -> int:
    """The step of `clock` and of the shortcuts: as tuned for the headline cost where half of the runs fail.

    At the headline prevalence no step is worth its false alarms, and `clock` would be a second `never`.
    """
    policies = {policy.name: policy.value for policy in frame.blind[HEADLINE_COST, max(PREVALENCES)].policies}
    return int(policies["clock"])


def _tuned(subject: object, frame: Baseline) -> Callable[[], Detector] | None:
    """The blind entries at their best: `clock` at `_clock_step`, the others as tuned for the headline cost skill."""
    if getattr(subject, "name", "") not in BLIND_POLICIES:
        return None
    from trainwreck.evaluation.detectors.sanity import blind

    policies = {policy.name: policy.value for policy in frame.blind[HEADLINE_COST, HEADLINE_PREVALENCE].policies}
    if subject is blind.Clock:
        return partial(blind.Clock, step=_clock_step(frame))
    if subject is blind.Periodic:
        return partial(blind.Periodic, every=int(policies["periodic"]))
    if subject is blind.Random:
        return partial(blind.Random, rate=policies["random"])
    return None
