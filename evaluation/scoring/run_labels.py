"""Labels of many runs as arrays, without any detector's alarms."""

import json
import textwrap
from collections import Counter
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import CALIBRATION, DEFAULT_PROFILE, TUNING_SPLITS
from trainwreck.evaluation.dataset.schema import FAILURES, JOINT, RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.profiles import LOGGED, TRAINER, visible_step
from trainwreck.evaluation.short_forms import WIDTH, AsText

VISIBLE_BY = (
    "run_id", "visible_step", "visible_steps", "visible_profiles", "outcome", "last_step", "planned_steps",
)  # fmt: skip
WITHOUT_SCALE = ("common", LOGGED, TRAINER)  # profiles that show the gradient norm, and not the loss scale
NEGATIVES = (RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value)


@dataclass(frozen=True, repr=False)
class RunLabels(AsText):
    """One entry a run. Steps are float64, infinite where there is no such step.

    last (T), planned (T of the plan: later than last where a run was ended at NaN), onset (s),
    visible (v), no_return (p, equal to T where it was not measured: see return_measured).

    visible is of the observation profile: infinite where its rows do not show the failure. A failing run that no
    signal shows (`shown` is False) can't be detected, only guessed, so it is not a positive: it is left out of recall,
    delay, lead, diagnosis and cost skill, and only counted (`never_visible`). Its steps before the onset
    are healthy steps like any other's.
    """

    run_id: np.ndarray
    kind: np.ndarray
    split: np.ndarray
    scenario: np.ndarray
    cause: np.ndarray
    family: np.ndarray
    severity: np.ndarray
    held_out: np.ndarray  # what of the run no training run has, joined by +; "" where that is nothing; see `unseen`
    base: np.ndarray
    seed: np.ndarray  # int
    last: np.ndarray
    planned: np.ndarray
    onset: np.ndarray
    visible: np.ndarray
    shown: np.ndarray  # bool; whether any signal shows the failure
    no_return: np.ndarray
    return_measured: np.ndarray  # bool
    overflows: np.ndarray  # bool; gradients overflow by design, and the profile does not show why

    def __len__(self) -> int:
        return len(self.run_id)

    def __repr__(self) -> str:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(self.kind.tolist()).items()))
        return (
            f"{type(self).__name__} of {len(self)} runs: {counted}; an array or a sequence each of:\n  "
            + "\n  ".join(textwrap.wrap(", ".join(field.name for field in fields(self)), WIDTH))
        )

    @cached_property
    def failing(self) -> np.ndarray:
        """The positives: failing and compound runs that become visible in some signal."""
        return np.asarray(np.isin(self.kind, FAILURES) & self.shown)

    @cached_property
    def never_visible(self) -> np.ndarray:
        return np.asarray(np.isin(self.kind, FAILURES) & ~self.shown)

    @cached_property
    def visible_in_time(self) -> np.ndarray:
        """The positives that the profile shows before their point of no return: what a detector can find at best."""
        return np.asarray(self.failing & (self.visible < self.no_return))

    @cached_property
    def subject(self) -> np.ndarray:
        """What runs are clustered by beside their seed: the scenario, or the base of a run without one. [N] str"""
        return np.where(self.scenario == "", np.char.add("base ", self.base), self.scenario)

    @cached_property
    def healthy(self) -> np.ndarray:
        return np.asarray(self.kind == RunKind.HEALTHY.value)

    @cached_property
    def look_alike(self) -> np.ndarray:
        return np.asarray(self.kind == RunKind.LOOK_ALIKE.value)

    @cached_property
    def negative(self) -> np.ndarray:
        """Runs that should never be alarmed: healthy and look-alike."""
        return np.isin(self.kind, NEGATIVES)

    @cached_property
    def calibration(self) -> np.ndarray:
        """The healthy and look-alike runs that thresholds are frozen on."""
        return np.asarray(self.negative & (self.split == CALIBRATION) & ~self.overflows)

    @cached_property
    def tuning(self) -> np.ndarray:
        """Runs of the splits on which anything may be tuned; all others are measured."""
        return np.isin(self.split, TUNING_SPLITS)

    def unseen(self, *what: str) -> np.ndarray:
        """Whether no training run has one of these of the run, [N] bool. what: of `schema.HELD_OUT`.

        A run on a base that no training run has is `unseen("base", "shape")`: older data sets say shape.
        """
        return np.array([not set(what).isdisjoint(words.split(JOINT)) for words in self.held_out.tolist()], dtype=bool)

    def select(self, mask: np.ndarray) -> Self:
        """The runs under a bool mask [N] or at integer positions."""
        chosen = np.arange(len(self))[mask]
        picked: dict[str, Any] = {}
        for field in fields(self):
            values = getattr(self, field.name)
            picked[field.name] = tuple(values[i] for i in chosen) if isinstance(values, tuple) else values[chosen]
        return type(self)(**picked)


def scored(runs: pd.DataFrame) -> np.ndarray:
    """Which runs of the table some score uses, [N] bool: the measured ones, and those to calibrate on.

    Runs that may be learnt from give no score; a detector need not be replayed on them.
    """
    split = _strings(runs, "split")
    return np.asarray((split == CALIBRATION) | ~np.isin(split, TUNING_SPLITS))


def run_labels(runs: pd.DataFrame, profile: str = DEFAULT_PROFILE) -> RunLabels:
    """The labels of the runs table under an observation profile. runs: columns of `schema.RUN_FIELDS`.

    Raises InputError for a run whose steps contradict each other, or a failing run without an onset.
    """
    last, measured = _steps(runs, "last_step"), _steps(runs, "no_return_step")
    found = RunLabels(
        run_id=_strings(runs, "run_id"),
        kind=_strings(runs, "kind"),
        split=_strings(runs, "split"),
        scenario=_strings(runs, "scenario"),
        cause=_strings(runs, "cause"),
        family=_strings(runs, "family"),
        severity=_strings(runs, "severity"),
        held_out=_strings(runs, "held_out"),
        base=_strings(runs, "base"),
        seed=runs["seed"].to_numpy(dtype=np.int64),
        last=last,
        planned=np.maximum(_steps(runs, "planned_steps") - 1, last),
        onset=_steps(runs, "onset_step"),
        visible=_visible(runs, profile),
        shown=np.isfinite(_steps(runs, "visible_step")),
        no_return=np.where(np.isfinite(measured), measured, last),
        return_measured=np.isfinite(measured),
        overflows=overflows(runs, profile),
    )
    _check(found)
    return found


def overflows(runs: pd.DataFrame, profile: str) -> np.ndarray:
    """Whether a run has a dynamic loss scale, which overflows by design, under a profile that does not show it. [N]"""
    if profile not in WITHOUT_SCALE:
        return np.zeros(len(runs), dtype=bool)
    declared = (json.loads(context or "{}") for context in _strings(runs, "context").tolist())
    return np.array([bool(one.get("precision", {}).get("dynamic")) for one in declared], dtype=bool)


def _visible(runs: pd.DataFrame, profile: str) -> np.ndarray:
    """The first visible step of a profile. [N]"""
    table = runs[[*VISIBLE_BY, *(("context",) if profile == TRAINER else ())]]  # a quiz's key has no context
    cells = table.astype(object).where(table.notna(), None).to_dict("records")
    found = (visible_step(run, profile) for run in cells)
    return np.array([np.inf if step is None else step for step in found], dtype=np.float64)


def _steps(runs: pd.DataFrame, column: str) -> np.ndarray:
    values = pd.to_numeric(runs[column]).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), np.inf, values)


def _strings(runs: pd.DataFrame, column: str) -> np.ndarray:
    return runs[column].fillna("").to_numpy(dtype=str)


def _check(found: RunLabels) -> None:
    failing = np.isin(found.kind, FAILURES)
    wrong = {
        "onset_step is empty": failing & ~np.isfinite(found.onset),
        "last_step is empty": ~np.isfinite(found.last),
        "visible_step before onset_step": failing & (found.visible < found.onset),
        "visible_step after last_step": failing & np.isfinite(found.visible) & (found.visible > found.last),
        "no_return_step before onset_step": failing & (found.no_return < found.onset),
        "no_return_step after last_step": failing & (found.no_return > found.last),
    }
    for complaint, mask in wrong.items():
        if mask.any():
            raise InputError(
                f"runs: {found.run_id[mask][0]}: {complaint}; allowed: onset <= visible, no return <= last"
            )
