"""Policies on the runs of a data set, side by side, and a table of what each saves."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.scoring.metrics.bootstrap import ANY, SHARE, Bootstrap, Ratio
from trainwreck.scenarios.rescue.actions import Action
from trainwreck.scenarios.rescue.episode import BLOCK, QUESTIONS, Episode, Untouched, advance
from trainwreck.scenarios.rescue.kept import Kept
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, outcome
from trainwreck.scenarios.rescue.policies import Policy

AT_ONCE = 32  # episodes trained side by side
ORACLE = "oracle"
Progress = Callable[[int, int, str], Any]


class Oracle:
    """The proven cure, at the first border of blocks at which the failure is visible. It alone has the label."""

    name = ORACLE
    rule = "the proven cure at the first border of blocks after the visible step"


def name_of(policy: type[Any]) -> str:
    """A policy's name, or that of its class."""
    return getattr(policy, "name", "") or policy.__name__


def play(
    policy: "type[Policy] | type[Oracle]",
    cases: Sequence[Case],
    profile: str = "common",
    block: int = BLOCK,
    untouched: Untouched | None = None,
) -> list[Outcome]:
    """Episodes of one policy, trained side by side.

    policy: a class, of which an object is made for each episode. What `act` returns and is no action, or not allowed
    here, counts as `continue`, and shows among the actions with the reason. untouched: see `advance`.
    """
    name = name_of(policy)
    episodes = [Episode(case.spec, profile, block) for case in cases]
    players = [None if policy is Oracle else policy() for _ in cases]
    for case, player in zip(cases, players, strict=True):
        if player is not None:
            player.reset(case.spec.seed)  # type: ignore[union-attr]
    while not all(one.ended for one in episodes):
        for case, player, one in zip(cases, players, episodes, strict=True):
            if one.ended:
                continue
            if player is None:
                _cure(case, one)
            else:
                _act(player, one)
        advance(episodes, untouched=untouched)
    return [
        outcome(case, one, name, tuple(getattr(player, "causes", ())))
        for case, player, one in zip(cases, players, episodes, strict=True)
    ]


def _cure(case: Case, one: Episode) -> None:
    done = any(act.note for act in one.actions)
    if case.failing and case.in_sight is not None and one.step >= case.in_sight and not done:
        one.cure()


def _act(player: Any, one: Episode) -> None:
    """Let a policy act: questions first, as many as an episode has answers to."""
    while True:
        chosen = player.act(one.observation())
        try:
            action = Action.parse(chosen) if isinstance(chosen, str) else chosen
            if not isinstance(action, Action):
                raise InputError(f"action: {str(chosen)[:60]!r} is not allowed; allowed: an Action, or its text")
        except InputError as error:
            one.refuse(str(error))
            return
        one.act(action)
        if not action.asks or one.asked > QUESTIONS:
            return


def play_all(
    policies: "Sequence[type[Any]]",
    cases: Sequence[Case],
    *,
    profile: str = "common",
    block: int = BLOCK,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Episodes of several policies. out: a file of outcomes, one a line, that is gone on with where it is there.

    Raises InputError for a file of another profile or block, or one that is damaged.
    """
    kept = Kept(out, {"profile": profile, "block": block}) if out is not None else None
    found = list(kept.outcomes) if kept else []
    done = {(one.policy, one.run_id) for one in found}
    total = len(policies) * len(cases)
    for start in range(0, len(cases), AT_ONCE):
        untouched: Untouched = {}  # until a policy acts, its runs are those of the others
        for policy in policies:
            name = name_of(policy)
            left = [case for case in cases[start : start + AT_ONCE] if (name, case.spec.run_id) not in done]
            if progress:
                progress(len(found), total, name)
            new = play(policy, left, profile, block, untouched)
            if kept and new:
                kept.add(new)
            found += new
    if progress:
        progress(total, total, "")
    wanted = {name_of(policy) for policy in policies}
    runs = {case.spec.run_id for case in cases}
    return [one for one in found if one.policy in wanted and one.run_id in runs]


def table(outcomes: Sequence[Outcome], resamples: int = 2000) -> pd.DataFrame:
    """A row a policy, the one that recovers most first; each value with the ends of its 95 % interval.

    recovered: net nats saved over those recoverable, of the rescuable runs. rescued: share of these that ended within
    tolerance of the twin. harmed: share of healthy and look-alike runs that ended worse than untouched by more than the
    tolerance, or were stopped. spent: mean cost in runs over all episodes. delay: median steps from the visible step to
    the first action in rescued runs. diagnosed: share of failing runs whose first named cause is right.
    """
    rows = []
    for policy in dict.fromkeys(one.policy for one in outcomes):
        mine = [one for one in outcomes if one.policy == policy]
        rescuable = np.array([one.rescuable for one in mine])
        bystander = np.array([one.kind in ("healthy", "look-alike") for one in mine])
        failing = ~bystander
        boot = Bootstrap(
            np.array([one.scenario if one.kind != "healthy" else one.base for one in mine]),
            np.array([str(one.seed) for one in mine]),
            content=np.array([one.kind for one in mine]),
            resamples=resamples,
        )
        net = np.array([one.net for one in mine])
        recoverable = np.array([one.recoverable for one in mine])
        right = np.array([bool(one.diagnosis) and one.diagnosis[0] in one.causes for one in mine], float)
        values = {
            "recovered": Ratio(np.where(rescuable, net, 0.0), np.where(rescuable, recoverable, 0.0), ANY),
            "rescued": _share(np.array([one.within for one in mine], float), rescuable),
            "harmed": _share(np.array([one.harmed for one in mine], float), bystander),
            "spent": Ratio(np.array([one.spent for one in mine]), np.ones(len(mine)), ANY),
            "diagnosed": _share(right, failing),
        }
        found = boot.ratios(values)
        waits = [one.acted - one.visible for one in mine if _rescued(one)]  # type: ignore[operator]
        row: dict[str, Any] = {"policy": policy, "episodes": len(mine), "rescuable": int(rescuable.sum())}
        for name, estimate in found.items():
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append(row | {"delay": float(np.median(waits)) if waits else math.nan})
    return pd.DataFrame(rows).sort_values("recovered", ascending=False, ignore_index=True)


def _rescued(one: Outcome) -> bool:
    return one.rescuable and one.within and one.acted is not None and one.visible is not None


def _share(values: np.ndarray, mask: np.ndarray) -> Ratio:
    return Ratio(np.where(mask, values, 0.0), mask.astype(float), SHARE)
