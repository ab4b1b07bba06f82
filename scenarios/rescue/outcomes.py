"""What an episode saved: against the run that nobody touched and its twin, less what it cost.

All is in nats of the final validation loss. A run that ended without a finite loss, or at a higher one, counts as one
that knows nothing: log of the vocabulary's size, the ceiling. How far a run ended from its twin, d, is measured on the
side on which the scenario does harm.

    saved        d of the untouched run - d of the episode
    worth        ceiling - final loss of the twin: what the training of the whole run buys
    net          saved - spent * worth, where `spent` is in runs: steps trained again, and prices
    recoverable  d of the untouched run: what is saved at most, at no cost

A failing run is rescuable where the proven cure still saves it once its failure is visible: where its point of no
return is not before the first border of blocks after its visible step, which is where a policy can act.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import FAILURES, Harm, RunKind
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.alarms import OK
from trainwreck.evaluation.replay.profiles import visible_step
from trainwreck.scenarios.rescue.actions import PRICES, Kind, Part, price_of
from trainwreck.scenarios.rescue.episode import BLOCK, CURE, OVER, Episode
from trainwreck.scenarios.spec.run_spec import RunSpec

KINDS = (*FAILURES, RunKind.HEALTHY.value, RunKind.LOOK_ALIKE.value)


@dataclass(frozen=True)
class Case:
    """A run of a data set that policies act on, with what its label says.

    visible: the first step at which the profile shows the failure; in_sight: the first border of blocks after it.
    untouched, twin: final losses, NaN where not finite.
    """

    spec: RunSpec
    kind: str
    causes: tuple[str, ...]
    visible: int | None
    in_sight: int | None
    no_return: int | None
    tolerance: float
    harm: Harm
    untouched: float
    twin: float

    @property
    def ceiling(self) -> float:
        """Loss of a model that knows nothing."""
        return math.log(self.spec.setup.model.vocab_size)

    @property
    def failing(self) -> bool:
        """Whether there is something to rescue it from."""
        return self.kind in FAILURES

    @property
    def worth(self) -> float:
        """What the whole training buys, nats."""
        return max(0.0, self.ceiling - self.twin)

    @property
    def recoverable(self) -> float:
        """What is saved at most, nats."""
        return self.away(self.untouched)

    @property
    def rescuable(self) -> bool:
        """Whether the proven cure at the visible step still saves it."""
        if not self.failing or self.in_sight is None or self.recoverable <= self.tolerance:
            return False
        return self.no_return is not None and self.no_return >= self.in_sight

    def away(self, final: float) -> float:
        """How far a final loss is from the twin's, on the side of the harm, nats."""
        capped = min(final, self.ceiling) if math.isfinite(final) else self.ceiling
        off = {Harm.ABOVE: capped - self.twin, Harm.BELOW: self.twin - capped, Harm.EITHER: abs(capped - self.twin)}
        return max(0.0, off[self.harm])


@dataclass(frozen=True)
class Outcome:
    """One episode. Losses and what is saved in nats, `spent` in runs; acted: step of the first action, None without.

    diagnosis: causes that the policy named, the likeliest first. status: `ok`, or the first answer that could not be
    used or how the policy was lost: a kind of `alarms.FAILURES_OF_A_DETECTOR`, a colon and what happened. planned:
    steps of the run; again: steps that were trained again.
    """

    policy: str
    run_id: str
    scenario: str
    kind: str
    seed: int
    base: str
    rescuable: bool
    visible: int | None
    final: float
    saved: float
    spent: float
    worth: float
    recoverable: float
    within: bool
    harmed: bool
    acted: int | None
    trained: int
    ended: str
    diagnosis: tuple[str, ...]
    causes: tuple[str, ...]
    actions: tuple[tuple[int, str, str], ...]
    status: str = OK
    planned: int = 0
    again: int = 0

    @property
    def net(self) -> float:
        """What is saved less what it cost, nats."""
        return self.saved - self.spent * self.worth

    def to_json(self) -> dict[str, Any]:
        """Plain types; a loss that is not finite is None."""
        found = dataclasses.asdict(self)
        return found | {"final": self.final if math.isfinite(self.final) else None}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Outcome":
        """The inverse of `to_json`. Raises KeyError, TypeError and ValueError for what is none."""
        lists = {name: tuple(content[name]) for name in ("diagnosis", "causes")}
        actions = tuple((step, action, note) for step, action, note in content["actions"])
        final = math.nan if content["final"] is None else content["final"]
        return cls(**content | lists | {"actions": actions, "final": final})


def outcome(case: Case, episode: Episode, policy: str, diagnosis: tuple[str, ...] = ()) -> Outcome:
    """What an episode that has ended came to."""
    trace = episode.trace()
    final = trace.final_loss() if len(trace) else math.nan  # stopped before anything was trained
    acts = [done.step for done in episode.actions if done.action.acts or done.note == CURE]
    listed = [done for done in episode.actions if done.action.kind is not Kind.CONTINUE or done.note]
    return Outcome(
        policy=policy,
        **_of_label(case, final, episode.ended),
        spent=episode.spent,
        acted=min(acts, default=None),
        trained=episode.trained,
        ended=episode.ended,
        diagnosis=diagnosis,
        actions=tuple((done.step, str(done.action), done.note) for done in listed),
        status=episode.status,
        planned=episode.planned,
        again=episode.again,
    )


def rescored(case: Case, kept: Outcome, prices: Mapping[Kind | Part, float] = PRICES) -> Outcome:
    """A kept outcome by the label of its run and by prices; nothing is trained. What the policy saw of prices stays.

    Raises InputError for one that was kept without its steps, and for an action that no episode has.
    """
    if kept.planned != case.spec.setup.steps:
        raise InputError(f"episode of {kept.run_id}: has {kept.planned} steps; allowed: {case.spec.setup.steps}")
    priced = 0.0  # added one after another, as an episode does
    for _, text, note in kept.actions:
        name, equals, value = text.partition("=")
        if name not in {kind.value for kind in Kind}:
            raise unknown(f"episode of {kept.run_id}: action", name[:60], [kind.value for kind in Kind])
        priced += 0.0 if note == OVER else price_of(name, value if equals else None, prices)
    fresh = _of_label(case, kept.final, kept.ended)
    return dataclasses.replace(kept, **fresh, spent=kept.again / kept.planned + priced)


def _of_label(case: Case, final: float, ended: str) -> dict[str, Any]:
    """The fields of an outcome that its run's label and its final loss give."""
    saved = case.recoverable - case.away(final)
    return {
        "run_id": case.spec.run_id,
        "scenario": case.spec.scenario,
        "kind": case.kind,
        "seed": case.spec.seed,
        "base": case.spec.base,
        "rescuable": case.rescuable,
        "visible": case.visible,
        "final": final,
        "saved": saved,
        "worth": case.worth,
        "recoverable": case.recoverable,
        "within": case.away(final) <= case.tolerance,
        "harmed": not case.failing and (-saved > case.tolerance or ended == "stopped"),
        "causes": case.causes,
    }


def cases(data: DataSet, splits: Sequence[str], profile: str, block: int = BLOCK) -> list[Case]:
    """The runs of a labelled data set that policies act on: failing, healthy and look-alike ones of these splits.

    Runs under a fault that has no twin are left out. Raises InputError for a data set without a plan's runs.
    """
    runs = data.runs
    chosen = runs[runs["kind"].isin(KINDS) & runs["split"].isin(splits)]
    found = []
    for _, row in chosen.iterrows():
        if not row["spec"]:
            raise InputError(f"data set: {data.path} has runs that no plan has; allowed: runs that can be trained")
        spec = RunSpec.from_json(json.loads(row["spec"]))
        own = row["kind"] == RunKind.HEALTHY.value
        twin = row if own else runs.loc[row["twin_id"]] if row["twin_id"] in runs.index else None
        if twin is None or pd.isna(twin["final_loss"]):
            continue
        no_return, visible = row["no_return_step"], visible_step(row, profile)
        border = None if visible is None else (visible // block + 1) * block
        found.append(
            Case(
                spec=spec,
                kind=str(row["kind"]),
                causes=tuple(json.loads(row["causes"] or "{}")),
                visible=visible,
                in_sight=border if border is not None and border < spec.setup.steps else None,
                no_return=None if pd.isna(no_return) else int(no_return),
                tolerance=spec.entry.tolerance,
                harm=spec.entry.harm if row["kind"] in FAILURES else Harm.ABOVE,
                untouched=float(row["final_loss"]),
                twin=float(twin["final_loss"]),
            )
        )
    return found
