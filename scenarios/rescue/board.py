"""Policies on the runs of a data set, side by side, and a table of what each saves."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.replay.alarms import GARBAGE, OK
from trainwreck.evaluation.scoring.metrics.bootstrap import ANY, SHARE, Bootstrap, Ratio
from trainwreck.scenarios.rescue.actions import PRICES, Action, Kind, Part
from trainwreck.scenarios.rescue.episode import BLOCK, QUESTIONS, Episode, Untouched, advance
from trainwreck.scenarios.rescue.kept import Kept, read
from trainwreck.scenarios.rescue.outcomes import Case, Outcome, cases, outcome, rescored
from trainwreck.scenarios.rescue.policies import Policy
from trainwreck.scenarios.rescue.remote.player import LONGEST, ConfinedPolicy, NoAnswerError, Player

AT_ONCE = 32  # episodes trained side by side
ORACLE = "oracle"
Progress = Callable[[int, int, str], Any]


class Oracle:
    """The proven cure, at the first border of blocks at which the failure is visible. It alone has the label."""

    name = ORACLE
    rule = "the proven cure at the first border of blocks after the visible step"


Playing = type[Policy] | type[Oracle] | ConfinedPolicy
"""What makes a policy for an episode: a class, or a policy of others that was opened."""


def name_of(policy: Any) -> str:
    """A policy's name, or that of its class."""
    return getattr(policy, "name", "") or policy.__name__


def play(
    policy: Playing,
    cases: Sequence[Case],
    profile: str = "common",
    block: int = BLOCK,
    untouched: Untouched | None = None,
) -> list[Outcome]:
    """Episodes of one policy, trained side by side.

    policy: of which an object is made for each episode. What `act` returns and is no action, or not allowed here,
    counts as `continue`, and shows among the actions with the reason; the first such is the episode's status.
    untouched: see `advance`.
    """
    name = name_of(policy)
    episodes = [Episode(case.spec, profile, block) for case in cases]
    players: list[Any] = [None if policy is Oracle else policy() for _ in cases]
    try:
        for case, player in zip(cases, players, strict=True):
            if player is not None:
                player.reset(case.spec.seed)
        while not all(one.ended for one in episodes):
            for case, player, one in zip(cases, players, episodes, strict=True):
                if one.ended:
                    continue
                if player is None:
                    _cure(case, one)
                else:
                    _act(player, one)
            advance(episodes, untouched=untouched)
            for player, one in zip(players, episodes, strict=True):
                if one.ended and isinstance(player, Player):
                    player.finish()
    finally:
        for player in players:
            if isinstance(player, Player):
                player.close()
    for player, one in zip(players, episodes, strict=True):
        one.status = getattr(player, "status", OK) if one.status == OK else one.status
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
        try:
            chosen = player.act(one.observation())
        except NoAnswerError as error:
            one.refuse(str(error))
            return
        try:
            action = Action.parse(chosen) if isinstance(chosen, str) else chosen
            if not isinstance(action, Action):
                raise InputError(f"action: {str(chosen)[:60]!r} is not allowed; allowed: an Action, or its text")
        except InputError as error:
            one.refuse(printable(f"{GARBAGE}: {error}", LONGEST))
            return
        one.act(action)
        if not action.asks or one.asked > QUESTIONS:
            return


def play_all(
    policies: Sequence[Any],
    cases: Sequence[Case],
    *,
    profile: str = "common",
    block: int = BLOCK,
    out: Path | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Episodes of several policies, in the order of these and of the cases.

    out: a file of outcomes, one a line, that is gone on with where it is there. Raises InputError for a file of another
    profile or block, or one that is damaged, and for two policies of one name.
    """
    names = [name_of(policy) for policy in policies]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"policy: two are called {name!r}; allowed: one of each name")
    kept = Kept(out, {"profile": profile, "block": block}) if out is not None else None
    played = {(one.policy, one.run_id): one for one in (kept.outcomes if kept else ())}
    total = len(policies) * len(cases)
    for first in range(0, len(cases), AT_ONCE):
        untouched: Untouched = {}  # until a policy acts, its runs are those of the others
        for name, policy in zip(names, policies, strict=True):
            left = [case for case in cases[first : first + AT_ONCE] if (name, case.spec.run_id) not in played]
            at_once = AT_ONCE
            if isinstance(policy, ConfinedPolicy):
                left, at_once = policy.drawn(left), policy.at_once
            for start in range(0, len(left), at_once):
                if progress:
                    progress(len(played), total, name)
                new = play(policy, left[start : start + at_once], profile, block, untouched)
                if kept:
                    kept.add(new)
                played |= {(one.policy, one.run_id): one for one in new}
    if progress:
        progress(total, total, "")
    return [played[name, case.spec.run_id] for name in names for case in cases]


def read_again(file: Path, data: DataSet, prices: Mapping[Kind | Part, float] = PRICES) -> list[Outcome]:
    """The outcomes of a file, by the labels of a data set and by prices; nothing is trained.

    Raises InputError for a file that can't be read, an episode of a run that the data set does not have, and one twice.
    """
    head, every = read(file)
    if set(head) != {"profile", "block"} or head["profile"] not in ("common", "full") or type(head["block"]) is not int:
        raise InputError(f"{file}: is of {json.dumps(head)[:100]}; allowed: a file that --out wrote")
    known = {case.spec.run_id: case for case in cases(data, list(data.runs["split"].unique()), **head)}
    found: dict[tuple[str, str], Outcome] = {}
    for one in every:
        if one.run_id not in known:
            raise InputError(
                f"{file}: {one.run_id!r} is not a run of {data.path}; allowed: the data set of its episodes"
            )
        if (one.policy, one.run_id) in found:
            raise InputError(f"{file}: {one.policy!r} has {one.run_id} twice; allowed: once")
        found[one.policy, one.run_id] = rescored(known[one.run_id], one, prices)
    if not found:
        raise InputError(f"{file}: has no episode; allowed: a file with one")
    return list(found.values())


def table(outcomes: Sequence[Outcome], resamples: int = 2000) -> pd.DataFrame:
    """A row a policy, the one that recovers most first; each value with the ends of its 95 % interval.

    recovered: net nats saved over those recoverable, of the rescuable runs. rescued: share of these that ended within
    tolerance of the twin. harmed: share of healthy and look-alike runs that ended worse than untouched by more than the
    tolerance, or were stopped. spent: mean cost in runs over all episodes. delay: median steps from the visible step to
    the first action in rescued runs. diagnosed: share of failing runs whose first named cause is right. failed: number
    of episodes whose status is not ok. The order of the outcomes changes nothing.
    """
    rows = []
    for policy in sorted({one.policy for one in outcomes}):
        mine = sorted((one for one in outcomes if one.policy == policy), key=lambda one: one.run_id)
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
        delay = float(np.median(waits)) if waits else math.nan
        rows.append(row | {"delay": delay, "failed": sum(one.status != OK for one in mine)})
    return pd.DataFrame(rows).sort_values("recovered", ascending=False, ignore_index=True, kind="stable")


def _rescued(one: Outcome) -> bool:
    return one.rescuable and one.within and one.acted is not None and one.visible is not None


def _share(values: np.ndarray, mask: np.ndarray) -> Ratio:
    return Ratio(np.where(mask, values, 0.0), mask.astype(float), SHARE)
