"""Players, their room and the detectors on the same runs, by the metrics that detectors are scored with."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import HEADLINE_COST, HEADLINE_PREVALENCE
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import BLIND
from trainwreck.evaluation.pages.quiz.answers import Answer, Sheet, check_sheet
from trainwreck.evaluation.pages.quiz.classroom.people import (
    ROOM,
    ROOM_RULE,
    answers_by_run,
    player_alarms,
    room_alarms,
)
from trainwreck.evaluation.pages.quiz.quiz import Quiz, spoken
from trainwreck.evaluation.scoring.operating_points import DEFAULT
from trainwreck.evaluation.scoring.reference import Baseline, baseline
from trainwreck.evaluation.scoring.scorecard import Scorecard, measure

PERSON, PEOPLE, DETECTOR = "person", "people", "detector"
AVERAGE = "average player"
COLUMNS = (
    "recall", "stopped", "stopped_look_alike", "skill", "lead", "delay_share", "top1", "top3", "top1_within_set",
    "family",
)  # fmt: skip
"""Scores of a row, each with its interval as NAME_low and NAME_high."""


@dataclass(frozen=True)
class Results:
    """rows: one an entry, see `COLUMNS`. runs: labels of all runs that anyone was asked about. room: of these runs."""

    profile: str
    quizzes: Mapping[str, Quiz]
    sheets: Sequence[Sheet]
    runs: pd.DataFrame
    answers: Mapping[str, list[Answer]]
    rows: list[dict[str, Any]]
    room: Scorecard


def results(sheets: Sequence[Sheet], quizzes: Mapping[str, Quiz]) -> Results:
    """Check every sheet against its quiz and score it.

    quizzes: by id, one for each sheet's. InputError for sheets of one player or sitting twice, of different profiles
    or telemetry, or with answers that the quiz can't have got.
    """
    check_room(sheets)
    for sheet in sheets:
        check_sheet(sheet, quizzes[sheet.recipe.id])
    used = [quizzes[name] for name in dict.fromkeys(sheet.recipe.id for sheet in sheets)]
    runs = pd.concat([quiz.runs for quiz in used])
    runs = runs[~runs["run_id"].duplicated()]
    answers = answers_by_run(sheets, quizzes)
    profile = used[0].recipe.profile
    families = {cause: family for quiz in used for cause, family in quiz.families.items()}
    shown = {run_id: quiz.shown(run_id) for quiz in used for run_id in quiz.runs["run_id"]}

    frames = {quiz.recipe.id: _frame(quiz.runs, families, profile) for quiz in used}
    whole = frames[used[0].recipe.id] if len(used) == 1 else _frame(runs, families, profile)
    people = []
    for sheet in sheets:
        quiz = quizzes[sheet.recipe.id]
        alarms = player_alarms(sheet, quiz)
        people.append(measure(sheet.player, BLIND, {}, alarms, frames[quiz.recipe.id]))
    together = {run_id: room_alarms(run_id, shown[run_id], answers[run_id]) for run_id in runs["run_id"]}
    about = {"rule": ROOM_RULE, "kind": PEOPLE, "players": len(sheets)}
    room = measure(ROOM, BLIND, about, together, whole)
    common = [name for name in used[0].said if all(name in quiz.said for quiz in used)]
    detectors = []
    for name in common:
        alarms = {
            run_id: spoken(run_id, shown[run_id], said) for quiz in used for run_id, said in quiz.said[name].items()
        }
        detectors.append(measure(name, BLIND, {}, alarms, whole))
    rows = [_row(card, PERSON) for card in people]
    if len(people) > 1:
        rows += [_average(rows), _row(room, PEOPLE)]
    rows += [_row(card, DETECTOR) for card in detectors]
    return Results(profile, quizzes, sheets, runs, answers, sorted(rows, key=_order), room)


def check_room(sheets: Sequence[Sheet]) -> None:
    """InputError for sheets that can't be scored together, or that are one player's twice."""
    seen: dict[tuple[str, str], Sheet] = {}
    for sheet in sheets:
        for field, value in (("sitting", sheet.sitting), ("player", sheet.player)):
            before = seen.setdefault((field, value.casefold()), sheet)
            if before is not sheet:
                raise InputError(f"{sheet.where}: {field}: {value!r} is in {before.where} already; allowed: each once")
        for field in ("telemetry", "profile"):
            value, first = getattr(sheet.recipe, field), getattr(sheets[0].recipe, field)
            if value != first:
                raise InputError(
                    f"{sheet.where}: quiz.{field}: {value!r} is not that of {sheets[0].where}, {first!r}; "
                    "allowed: quizzes of one data set and profile together"
                )


def _frame(runs: pd.DataFrame, families: Mapping[str, str], profile: str) -> Baseline:
    """The runs' baseline, with the family of every cause that could be named and not only of those in the runs."""
    found = baseline(runs, profile)
    return replace(found, family_of={**families, **found.family_of})


def _row(card: Scorecard, kind: str) -> dict[str, Any]:
    own = card.points[DEFAULT]  # people have no other threshold
    recall = own.recall
    estimates: dict[str, Sequence[float]] = {
        "recall": recall[:3],
        "stopped": recall.stopped[:3],
        "stopped_look_alike": recall.stopped_look_alike[:3],
        "skill": own.skill[HEADLINE_COST][HEADLINE_PREVALENCE],
        "lead": own.lead,
        "delay_share": own.delay["from_onset"]["restricted_mean_share"],
        "top1": own.diagnosis["cause"]["1"]["macro"],
        "top3": own.diagnosis["cause"]["3"]["macro"],
        "top1_within_set": own.diagnosis["cause_within_set"]["1"]["macro"],
        "family": own.diagnosis["family"]["1"]["macro"],
    }
    counts = {name: card.counts[name] for name in ("failing", "healthy", "look_alike", "crashed")}
    row: dict[str, Any] = {"name": card.detector, "kind": kind, "runs": card.counts["measured"], **counts}
    for name in COLUMNS:
        value, low, high = (_known(number) for number in estimates[name][:3])
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return row


def _average(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of each score over the players who have it; without an interval."""
    row: dict[str, Any] = {"name": AVERAGE, "kind": PEOPLE}
    row |= dict.fromkeys(("runs", "failing", "healthy", "look_alike", "crashed"))
    for name in COLUMNS:
        known = [one[name] for one in rows if one[name] is not None]
        row |= {name: float(np.mean(known)) if known else None, f"{name}_low": None, f"{name}_high": None}
    return row


def _order(row: Mapping[str, Any]) -> tuple[float | str, ...]:
    """By recall less nothing: best first, then by W*, then by name. Unknown scores come last."""
    return (*(math.inf if row[name] is None else -row[name] for name in ("recall", "skill")), row["name"])


def _known(number: float) -> float | None:
    return None if math.isnan(number) else float(number)
