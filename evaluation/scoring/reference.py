"""What every detector on a data set is measured against: its runs, its resamples, its blind policies.

Made once for a data set and profile, so that all detectors are scored on the same runs and the same resamples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import (
    CALIBRATION_RUNS,
    COSTS,
    DEFAULT_PROFILE,
    LOOK_ALIKE_SHARE,
    PREVALENCES,
    RESAMPLES,
    TOP,
)
from trainwreck.evaluation.dataset.consistency import check_table
from trainwreck.evaluation.dataset.schema import HELD_OUT, JOINT, RunKind
from trainwreck.evaluation.scoring.equivalence_sets import Sets, shipped
from trainwreck.evaluation.scoring.metrics.bootstrap import Bootstrap, ratio
from trainwreck.evaluation.scoring.metrics.diagnosis import chance, majority_prior, place_of_right
from trainwreck.evaluation.scoring.metrics.skill import (
    POLICIES,
    Policy,
    Runs,
    hidden,
    oracle_gains,
    policy_gains,
    policy_losses,
    tune,
    utility,
)
from trainwreck.evaluation.scoring.metrics.thresholds import shares
from trainwreck.evaluation.scoring.run_labels import RunLabels, run_labels
from trainwreck.evaluation.short_forms import AsText

UNCOVERED = {
    "healthy": "healthy runs are of bases without a calibration run, which no threshold accounts for",
    "look_alike": "look-alike runs are of scenarios without a calibration run, which no budget counts",
}


PAIRS = "pairs"
ONE = np.ones((1, 1))


@dataclass(frozen=True)
class Blind:
    """What 0 and 1 are under one cost profile and prevalence: the tuned blind policies, and an alarm at v.

    value: utility of the best policy on the measured runs; ceiling: of the oracle. samples, ceilings: the same on
    each resample, [R].
    """

    policies: tuple[Policy, ...]
    value: float
    samples: np.ndarray
    ceiling: float
    ceilings: np.ndarray


@dataclass(frozen=True, repr=False)
class Baseline(AsText):
    """profile: the observation profile. measured: [N] bool, the runs outside the tuning splits whose fault is shown or
    that have none, which every score is taken on; calibration: [N] bool, those that thresholds are frozen on.

    calibration_weights, calibration_draws: what share of the measured healthy and look-alike runs each calibration run
    stands for, [H], and how often it is in each resample, [S, H]. negative_weights: [M], the same of the measured runs.
    """

    profile: str
    measured: np.ndarray
    calibration: np.ndarray
    calibration_weights: np.ndarray
    calibration_draws: np.ndarray
    negative_weights: np.ndarray
    everything: RunLabels
    labels: RunLabels  # of the measured runs
    calibration_labels: RunLabels
    bootstrap: Bootstrap
    blind: dict[tuple[str, float], Blind]
    unseen: frozenset[str]  # causes that no tuning run had; empty where no tuning run fails
    family_of: dict[str, str]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"what detectors are measured by, profile {self.profile}: {self.labels!r}"

    @cached_property
    def negative_draws(self) -> np.ndarray:
        """How often each measured healthy and look-alike run is in each resample. [S, H]"""
        return self.bootstrap.draws()[:, self.labels.negative]

    @cached_property
    def calibration_shares(self) -> tuple[np.ndarray, np.ndarray]:
        """`thresholds.shares` of the calibration runs."""
        return shares(self.calibration_weights, self.calibration_draws)

    @cached_property
    def negative_shares(self) -> tuple[np.ndarray, np.ndarray]:
        """`thresholds.shares` of the measured healthy and look-alike runs."""
        return shares(self.negative_weights[self.labels.negative], self.negative_draws)

    @cached_property
    def parts(self) -> dict[tuple[str, str], np.ndarray]:
        """What a score is broken down by, and the runs of each part, [N] bool; none is empty.

        family, scenario and held_out: of the failing runs, failures of two families at once as `PAIRS`; look_alike.
        """
        one = self.labels
        families = np.array([PAIRS if JOINT in name else name for name in one.family.tolist()])
        masks: dict[tuple[str, str], np.ndarray] = {}
        for part, names, among in (
            ("family", families, one.failing),
            ("scenario", one.scenario, one.failing),
            ("look_alike", one.scenario, one.look_alike),
        ):
            every, code = np.unique(names, return_inverse=True)
            masks |= {(part, name): among & (code == i) for i, name in enumerate(every.tolist())}
        masks |= {("held_out", name): one.failing & one.unseen(name) for name in HELD_OUT}
        return {key: mask for key, mask in masks.items() if mask.any()}

    @cached_property
    def levels(self) -> dict[str, "Level"]:
        """What a diagnosis is asked for."""
        sets = shipped(self.profile)
        return {
            "cause": Level(self.labels.cause, self.labels.failing, self.unseen, {}),
            "family": Level(self.labels.family, self.labels.failing, frozenset(), {}),
            "cause_within_set": Level(self.labels.cause, self.labels.failing, self.unseen, sets),
        }

    def utility_samples(self, gain: np.ndarray, loss: np.ndarray, prevalence: float) -> np.ndarray:
        """U on each resample, [S, M]. gain, loss: [N, M] over the measured runs, 0 where they don't apply."""
        return np.asarray(utility(*self.expectations(gain[:, None], loss[:, None]), prevalence))

    def expectations(
        self, gain: np.ndarray, loss: np.ndarray, chances: np.ndarray = ONE
    ) -> tuple[np.ndarray, np.ndarray]:
        """The two expectations of U on each resample, [S, M]: mean gain of failing runs, mean loss of others.

        gain, loss: [N, T, M] over the measured runs, at T levels with their chances on each resample, [S, T].
        """
        sums = self.bootstrap.expected(np.concatenate((gain, loss), axis=2), chances)
        failing, negative = map(self.bootstrap.counts, (self.labels.failing, self.labels.negative))
        return ratio(sums[:, : gain.shape[2]], failing[:, None]), ratio(sums[:, gain.shape[2] :], negative[:, None])


@dataclass(frozen=True)
class Level:
    """True causes or families, [N], of which those of failing runs count, [N] bool.

    unseen: those for which "unknown" is right. sets: cause to the others of its equivalence set, which are right too.
    """

    truth: np.ndarray
    failing: np.ndarray
    unseen: frozenset[str]
    sets: Sets

    @cached_property
    def weights(self) -> np.ndarray:
        """Of each run in a mean over causes of the mean over a cause's failing runs. [N]"""
        weights = np.zeros(len(self.truth))
        _, code, counts = np.unique(self.truth[self.failing], return_inverse=True, return_counts=True)
        weights[self.failing] = 1.0 / counts[code]
        return weights

    def places(self, named: Sequence[tuple[str, ...]]) -> np.ndarray:
        """How many answers come before the first that is right. [N] float"""
        return place_of_right(self.truth, named, self.unseen, self.sets)

    @cached_property
    def guesses(self) -> dict[int, dict[str, float]]:
        """What guessing gets, by how many answers count: `chance` and `majority_prior`."""
        truth = self.truth[self.failing]
        return {k: {"chance": chance(truth, k, self.sets), "majority_prior": majority_prior(truth, k)} for k in TOP}


def baseline(runs: pd.DataFrame, profile: str = DEFAULT_PROFILE, *, resamples: int = RESAMPLES) -> Baseline:
    """From the runs table alone. Raises InputError for labels that contradict themselves."""
    check_table(runs)
    everything = run_labels(runs, profile)
    measured = ~everything.tuning & (everything.kind != RunKind.NOT_SHOWN.value)  # which are neither
    tuning, labels = everything.select(everything.tuning), everything.select(measured)
    calibration = everything.select(everything.calibration)
    notes = []
    tuning_runs, measured_runs = skill_runs(tuning), skill_runs(labels)
    if not tuning_runs.complete:
        # Tuned on the runs it is measured on, the blind baseline is the best it can be: W* errs low.
        tuning_runs = measured_runs
        notes.append("blind policies are tuned on the measured runs: no tuning split holds failing and healthy runs")
    weights, left_out = calibration_weights(calibration, labels)
    made = Baseline(
        profile=profile,
        measured=measured,
        calibration=everything.calibration,
        calibration_weights=weights,
        calibration_draws=_resampled(calibration, resamples).draws() if len(calibration) else np.zeros((1, 0)),
        negative_weights=_mixed(labels),
        everything=everything,
        labels=labels,
        calibration_labels=calibration,
        bootstrap=_resampled(labels, resamples),
        blind={},
        unseen=_unseen(tuning, labels),
        family_of=_families(everything),
        notes=(*notes, *left_out, *_too_few(weights)),
    )
    for cost in COSTS:
        for prevalence in PREVALENCES:
            policies = tuple(tune(name, tuning_runs, cost, prevalence) for name in POLICIES)
            made.blind[cost, prevalence] = _blind(made, policies, measured_runs, cost, prevalence)
    return made


def calibration_weights(calibration: RunLabels, measured: RunLabels) -> tuple[np.ndarray, list[str]]:
    """What share of the measured population each calibration run stands for, [H], and notes on what none stands for.

    Healthy runs by the shares of the bases among the measured healthy runs, look-alikes by those of their scenarios;
    look-alikes together are `LOOK_ALIKE_SHARE` of all, where there are any in both.
    """
    weights, notes = np.zeros(len(calibration)), []
    for kind, share in (("healthy", 1.0 - LOOK_ALIKE_SHARE), ("look_alike", LOOK_ALIKE_SHARE)):
        at, among = getattr(calibration, kind), getattr(measured, kind)
        names, counts = np.unique(measured.subject[among], return_counts=True)
        size = np.array([int((calibration.subject[at] == name).sum()) for name in names.tolist()], dtype=np.int64)
        covered = int(counts[size > 0].sum())
        if covered < counts.sum():
            notes.append(f"{1 - covered / counts.sum():.0%} of the measured {UNCOVERED[kind]}")
        for name, count, runs in zip(names.tolist(), counts.tolist(), size.tolist(), strict=True):
            if runs:
                weights[at & (calibration.subject == name)] = share * count / covered / runs
    if not weights.any():  # no base in common: each counts the same
        weights = calibration.healthy.astype(np.float64)
    return weights / max(weights.sum(), 1e-300), notes


def effective(weights: np.ndarray) -> float:
    """As many runs of equal weight would give as much (Kish 1965)."""
    return float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))


def skill_runs(labels: RunLabels) -> Runs:
    """The labels that cost skill reads, of failing runs and of negative ones."""
    failing = labels.failing
    onset, last = labels.onset[failing], labels.planned[failing]
    visible = np.where(np.isfinite(labels.visible[failing]), labels.visible[failing], np.maximum(onset, hidden(last)))
    return Runs(onset, visible, last, labels.planned[labels.negative])


def _resampled(labels: RunLabels, resamples: int) -> Bootstrap:
    groups = np.where(labels.healthy, "healthy", np.where(labels.look_alike, "look-alike", "faulty"))
    return Bootstrap(labels.subject, labels.seed, content=groups, resamples=resamples)


def _mixed(labels: RunLabels) -> np.ndarray:
    """Weights of the measured healthy and look-alike runs, as the budget counts them. [M]"""
    parts = [(labels.healthy, 1.0 - LOOK_ALIKE_SHARE), (labels.look_alike, LOOK_ALIKE_SHARE)]
    mixed = sum((np.where(mask, share / max(1, mask.sum()), 0.0) for mask, share in parts), np.zeros(len(labels)))
    return np.asarray(mixed / max(mixed.sum(), 1e-300))


def _too_few(weights: np.ndarray) -> list[str]:
    count, notes = effective(weights), []
    for budget, needed in CALIBRATION_RUNS.items():
        if count < needed:
            note = f"a budget of {budget:.0%} needs {needed} calibration runs; here are {count:.0f}"
            note += f" in effect, of {len(weights)}" if round(count) < len(weights) else ""
            # What stays quiet on all of them may still stop one in so many others.
            largest = budget * (count + 1.0)
            notes.append(note + (f", with which no recall is above {largest:.2f}" if count > 0 and largest < 1 else ""))
    return notes


def _blind(made: Baseline, policies: tuple[Policy, ...], runs: Runs, cost: str, prevalence: float) -> Blind:
    failing, negative = made.labels.failing, made.labels.negative
    gain = np.zeros((len(made.labels), len(policies)))
    loss = np.zeros_like(gain)
    for i, policy in enumerate(policies):
        gain[failing, i] = policy_gains(policy, runs, cost)
        loss[negative, i] = policy_losses(policy, runs.healthy_last, cost)
    if not runs.complete:
        undefined = np.full(1, np.nan)
        return Blind(policies, float("nan"), undefined, float("nan"), undefined)
    best = np.zeros(len(made.labels))
    best[failing] = oracle_gains(runs)
    values = np.asarray(utility(gain[failing].mean(axis=0), loss[negative].mean(axis=0), prevalence))
    return Blind(
        policies,
        float(values.max()),
        made.utility_samples(gain, loss, prevalence).max(axis=1),
        float(utility(best[failing].mean(), 0.0, prevalence)),
        made.utility_samples(best[:, None], np.zeros((len(best), 1)), prevalence)[:, 0],
    )


def _unseen(tuning: RunLabels, labels: RunLabels) -> frozenset[str]:
    seen = {part for cause in tuning.cause[tuning.failing].tolist() for part in cause.split(JOINT)}
    causes = frozenset(labels.cause[labels.failing].tolist())
    return frozenset(cause for cause in causes if seen.isdisjoint(cause.split(JOINT))) if seen else frozenset()


def _families(runs: RunLabels) -> dict[str, str]:
    pairs = zip(runs.cause.tolist(), runs.family.tolist(), strict=True)
    return {c: f for cause, family in pairs for c, f in zip(cause.split(JOINT), family.split(JOINT), strict=True)}
