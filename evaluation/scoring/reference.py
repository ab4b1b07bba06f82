"""What every detector on a data set is measured against: its runs, its resamples, its blind policies.

Made once for a data set, so that all detectors are scored on the same runs and the same resamples.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import COSTS, PREVALENCES, RESAMPLES
from trainwreck.evaluation.dataset.consistency import check_table
from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.scoring.metrics.bootstrap import Bootstrap, ratio
from trainwreck.evaluation.scoring.metrics.skill import (
    POLICIES,
    Policy,
    Runs,
    oracle_gains,
    policy_gains,
    policy_losses,
    tune,
    utility,
)
from trainwreck.evaluation.scoring.run_labels import RunLabels, run_labels


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


@dataclass(frozen=True)
class Baseline:
    """measured: [N] bool, the runs outside the tuning splits, which every score is taken on."""

    measured: np.ndarray
    labels: RunLabels  # of the measured runs
    bootstrap: Bootstrap
    blind: dict[tuple[str, float], Blind]
    unseen: frozenset[str]  # causes that no tuning run had; empty where no tuning run fails
    family_of: dict[str, str]
    notes: tuple[str, ...]

    def utility_samples(self, gain: np.ndarray, loss: np.ndarray, prevalence: float) -> np.ndarray:
        """U on each resample. gain, loss: [N] or [N, M] over the measured runs, 0 where they don't apply."""
        return np.asarray(utility(*self.expectations(gain, loss), prevalence))

    def expectations(self, gain: np.ndarray, loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two expectations of U on each resample, [R] or [R, M]: mean gain of failing runs, mean loss of others."""
        shape = (-1,) + (1,) * (gain.ndim - 1)
        failing, negative = self.labels.failing, self.labels.negative
        return (
            ratio(self.bootstrap.sums(gain), self.bootstrap.counts(failing).reshape(shape)),
            ratio(self.bootstrap.sums(loss), self.bootstrap.counts(negative).reshape(shape)),
        )


def baseline(runs: pd.DataFrame, *, resamples: int = RESAMPLES) -> Baseline:
    """From the runs table alone. Raises InputError for labels that contradict themselves."""
    check_table(runs)
    everything = run_labels(runs)
    tuning, labels = everything.select(everything.tuning), everything.select(~everything.tuning)
    notes = []
    tuning_runs, measured_runs = skill_runs(tuning), skill_runs(labels)
    if not tuning_runs.complete:
        # Tuned on the runs it is measured on, the blind baseline is the best it can be: W* errs low.
        tuning_runs = measured_runs
        notes.append("blind policies are tuned on the measured runs: no tuning split holds failing and healthy runs")
    bootstrap = Bootstrap(labels.cluster, labels.cause, labels.severity, resamples=resamples)
    made = Baseline(
        measured=~everything.tuning,
        labels=labels,
        bootstrap=bootstrap,
        blind={},
        unseen=_unseen(tuning, labels),
        family_of=_families(everything),
        notes=tuple(notes),
    )
    for cost in COSTS:
        for prevalence in PREVALENCES:
            policies = tuple(tune(name, tuning_runs, cost, prevalence) for name in POLICIES)
            made.blind[cost, prevalence] = _blind(made, policies, measured_runs, cost, prevalence)
    return made


def skill_runs(labels: RunLabels) -> Runs:
    """The labels that cost skill reads, of visible failing runs and of negative ones."""
    failing = labels.failing
    return Runs(
        labels.onset[failing], labels.visible[failing], labels.planned[failing], labels.planned[labels.negative]
    )


def _blind(made: Baseline, policies: tuple[Policy, ...], runs: Runs, cost: str, prevalence: float) -> Blind:
    failing, negative = made.labels.failing, made.labels.negative
    gain = np.zeros((len(made.labels), len(policies)))
    loss = np.zeros_like(gain)
    for i, policy in enumerate(policies):
        gain[failing, i] = policy_gains(policy, runs, cost)
        loss[negative, i] = policy_losses(policy, runs.healthy_last, cost)
    if not runs.complete:
        undefined = np.full(len(made.bootstrap.weights), np.nan)
        return Blind(policies, float("nan"), undefined, float("nan"), undefined)
    best = np.zeros(len(made.labels))
    best[failing] = oracle_gains(runs)
    values = np.asarray(utility(gain[failing].mean(axis=0), loss[negative].mean(axis=0), prevalence))
    return Blind(
        policies,
        float(values.max()),
        made.utility_samples(gain, loss, prevalence).max(axis=1),
        float(utility(best[failing].mean(), 0.0, prevalence)),
        made.utility_samples(best, np.zeros_like(best), prevalence),
    )


def _unseen(tuning: RunLabels, labels: RunLabels) -> frozenset[str]:
    seen = {part for cause in tuning.cause[tuning.failing].tolist() for part in cause.split(JOINT)}
    causes = frozenset(labels.cause[labels.failing].tolist())
    return frozenset(cause for cause in causes if seen.isdisjoint(cause.split(JOINT))) if seen else frozenset()


def _families(runs: RunLabels) -> dict[str, str]:
    pairs = zip(runs.cause.tolist(), runs.family.tolist(), strict=True)
    return {c: f for cause, family in pairs for c, f in zip(cause.split(JOINT), family.split(JOINT), strict=True)}
