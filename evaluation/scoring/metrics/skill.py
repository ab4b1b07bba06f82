"""Metric 6: W*, what an alarm is worth, between the best blind policy (0) and an alarm at v (1).

For a failing run with onset s, visible step v, first alarm a and last planned step T (a run that was
ended at its NaN would have gone on for nothing), in steps:

    saved  = T - max(a, v) - r   where s <= a < inf, else 0           r = RESPONSE * T
    gain   = saved - c * 1(a < s)                                     c = COSTS[profile] * T
    loss   = c * 1(a < inf)                                           for a negative run
    U(pi)  = pi * E[gain over failing runs] - (1 - pi) * E[loss over negative runs]
    W*(pi) = (U - U_blind) / (U_oracle - U_blind)

c is what a false alarm costs: a look at the curves (inspect), the steps since the last checkpoint
(rollback), the run (kill). Negative runs are healthy and look-alike ones together. pi is the share
of runs that fail. An alarm before v saves no more than one at v, so W* <= 1; the oracle alarms at v
and nowhere else. Nothing is cut at 0: an alarm in the last steps may cost more than it saves.

U_blind is the largest, on the runs that are measured, of five policies that see no telemetry, each
tuned on the tuning splits for the same profile and pi: never; always (a = 0); clock (a = k);
periodic (an alarm every k steps at a phase drawn uniformly, so a is uniform on 0..k-1); random (an
alarm at each step with chance q, so a is geometric). The last two are taken in expectation, in
closed form. W* is undefined (NaN) where U_oracle does not exceed U_blind. A failure that the profile does not show
counts as visible when nothing is left to save (`hidden`).
"""

from dataclasses import dataclass

import numpy as np

from trainwreck.evaluation.constants import COSTS, RESPONSE

POLICIES = ("never", "always", "clock", "periodic", "random")
PERIODS = 64  # candidates for the period and for the chance of an alarm
CHANCES = np.geomspace(1e-5, 0.5, 64)


@dataclass(frozen=True)
class Runs:
    """The labels that metric 6 reads. onset, visible, last: [F], failing runs. healthy_last: [H], negatives."""

    onset: np.ndarray
    visible: np.ndarray
    last: np.ndarray
    healthy_last: np.ndarray

    @property
    def complete(self) -> bool:
        """Whether both expectations exist."""
        return len(self.last) > 0 and len(self.healthy_last) > 0


@dataclass(frozen=True)
class Policy:
    """A blind policy: clock at step `value`, periodic every `value` steps, random with chance `value`."""

    name: str
    value: float = 0.0


def hidden(last: np.ndarray) -> np.ndarray:
    """The last step at which an alarm saves anything: v of a run whose failure is not shown. [F]"""
    return last - RESPONSE * last


def saved(first: np.ndarray, onset: np.ndarray, visible: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Steps that an alarm at `first` saves, [F] or broadcast; may be negative near the end."""
    alarmed = (first >= onset) & np.isfinite(first)
    at = np.where(alarmed, np.maximum(first, visible), 0.0)
    return np.where(alarmed, last - at - RESPONSE * last, 0.0)


def gains(first: np.ndarray, runs: Runs, cost: str) -> np.ndarray:
    """saved - c 1(a < s) of each failing run, steps. first: [F]."""
    return saved(first, runs.onset, runs.visible, runs.last) - COSTS[cost] * runs.last * (first < runs.onset)


def losses(first: np.ndarray, last: np.ndarray, cost: str) -> np.ndarray:
    """c 1(a < inf) of each negative run, steps. first, last: [H]."""
    return np.asarray(COSTS[cost] * last * np.isfinite(first))


def utility(gain: np.ndarray | float, loss: np.ndarray | float, prevalence: float) -> np.ndarray | float:
    """U from the two expectations."""
    return prevalence * gain - (1.0 - prevalence) * loss


def skill(value: np.ndarray, blind: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """W* from the three utilities, elementwise; NaN where the oracle is no better than the blind."""
    span = np.asarray(oracle - blind, dtype=np.float64)
    return np.asarray(np.divide(value - blind, span, out=np.full(span.shape, np.nan), where=span > 0))


def oracle_gains(runs: Runs) -> np.ndarray:
    """Gains of an alarm at v; its losses are 0. [F]"""
    return saved(runs.visible, runs.onset, runs.visible, runs.last)


def policy_gains(policy: Policy, runs: Runs, cost: str) -> np.ndarray:
    """Expected gain of a blind policy on each failing run, steps. [F]"""
    s, v, last = runs.onset, runs.visible, runs.last
    c, r = COSTS[cost] * last, RESPONSE * last
    if policy.name == "never":
        return np.zeros_like(last)
    if policy.name in ("always", "clock"):
        at = np.where(policy.value > last, np.inf, policy.value)
        return gains(at, runs, cost)
    if policy.name == "periodic":
        k = policy.value
        before = np.minimum(k, s)  # phases 0 .. s-1
        early = np.clip(k, s, v) - s  # phases s .. v-1
        late = np.clip(k, v, last + 1) - v  # phases v .. T: T-v-r, then one less each
        worth = early * (last - v - r) + late * (last - v - r) - late * (late - 1) / 2
        return np.asarray((worth - c * before) / k)
    q = policy.value
    quiet = 1.0 - q
    m = last - v
    # Sum of j q (1-q)^j over j = 0..m: the steps that are lost by alarming j steps after v.
    wait = quiet * (1.0 - (m + 1) * quiet**m + m * quiet ** (m + 1)) / q
    early = (quiet**s - quiet**v) * (last - v - r)
    late = quiet**v * ((last - v - r) * (1.0 - quiet ** (m + 1)) - wait)
    return np.asarray(early + late - c * (1.0 - quiet**s))


def policy_losses(policy: Policy, last: np.ndarray, cost: str) -> np.ndarray:
    """Expected loss of a blind policy on each negative run, steps. [H]"""
    c = COSTS[cost] * last
    if policy.name == "never":
        return np.zeros_like(last)
    if policy.name in ("always", "clock"):
        return c * (policy.value <= last)
    if policy.name == "periodic":
        return c * np.minimum(1.0, (last + 1) / policy.value)
    return c * (1.0 - (1.0 - policy.value) ** (last + 1))


def policy_utility(policy: Policy, runs: Runs, cost: str, prevalence: float) -> float:
    """U of a blind policy; NaN unless there are failing and negative runs."""
    if not runs.complete:
        return float("nan")
    gain, loss = policy_gains(policy, runs, cost).mean(), policy_losses(policy, runs.healthy_last, cost).mean()
    return float(utility(gain, loss, prevalence))


def tune(name: str, runs: Runs, cost: str, prevalence: float) -> Policy:
    """The policy of this name with the largest U on the tuning runs; its simplest form without such runs.

    A clock's U rises only where k passes an onset or a run's end, so those steps are all that need
    be tried and the optimum is exact. Periods and chances are searched on a grid of 64.
    """
    longest = max([1.0, *runs.last.tolist(), *runs.healthy_last.tolist()])
    if name == "clock":
        values = np.unique(np.concatenate([[0.0], runs.onset, runs.last + 1, runs.healthy_last + 1]))
    elif name == "periodic":
        values = np.unique(np.round(np.geomspace(1.0, 4.0 * longest, PERIODS)))
    elif name == "random":
        values = CHANCES
    else:
        return Policy(name)
    if not runs.complete:
        return Policy(name, float(values[-1] if name != "random" else values[0]))
    candidates = [Policy(name, float(value)) for value in values]
    return max(candidates, key=lambda policy: policy_utility(policy, runs, cost, prevalence))
