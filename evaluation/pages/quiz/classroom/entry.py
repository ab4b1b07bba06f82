"""A room of people as an entry of the leaderboard: a submission like any other, whose detector is people."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from trainwreck.evaluation.constants import UNKNOWN
from trainwreck.evaluation.dataset.dataset import DataSet, telemetry_digest
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.run import BLIND, known_causes
from trainwreck.evaluation.leaderboard.submission import Facts, write_submission
from trainwreck.evaluation.pages.quiz.answers import Answer
from trainwreck.evaluation.pages.quiz.classroom.people import ROOM, ROOM_RULE, room_alarms
from trainwreck.evaluation.pages.quiz.classroom.scores import PEOPLE, Results
from trainwreck.evaluation.replay.profiles import shown_steps
from trainwreck.evaluation.scoring.reference import baseline
from trainwreck.evaluation.scoring.run_labels import scored
from trainwreck.evaluation.scoring.scorecard import measure


def submit_room(out: Path, facts: Facts, dataset: DataSet, found: Results) -> Path:
    """Write OUT/NAME as `trainwreck submit` does, and return the folder.

    The leaderboard asks every entry about every run that is scored, so somebody has answered each. InputError where
    some are missing or the answers are to another data set. Families that were named are no causes and are left out.
    """
    telemetry = telemetry_digest(dataset)
    if found.sheets[0].recipe.telemetry != telemetry:
        raise InputError(
            f"submission: the answers are to other telemetry than {dataset.path}; allowed: --data of the quiz"
        )
    runs = dataset.runs[scored(dataset.runs)]
    missing = [run_id for run_id in runs["run_id"] if not found.answers.get(run_id)]
    if missing:
        raise InputError(
            f"submission: {len(missing)} of {len(runs)} runs have no answer, {missing[0]} first; allowed: answers "
            "to every run, as the parts 1/M to M/M of `trainwreck quiz --part K/M` give them together"
        )
    causes = {*known_causes(dataset), UNKNOWN}
    alarms = {}
    for run_id, last in zip(runs["run_id"], runs["last_step"], strict=True):
        answers = [_of_causes(answer, causes) for answer in found.answers[run_id]]
        alarms[run_id] = room_alarms(run_id, shown_steps(found.profile, int(last)), answers)
    about = {"rule": f"{ROOM_RULE}, of {len(found.sheets)} in all", "kind": PEOPLE, "source": facts.code}
    card = measure(ROOM, BLIND, about, alarms, baseline(dataset.runs, found.profile))
    return write_submission(out, facts, dataset, [card])


def _of_causes(answer: Answer, causes: Collection[str]) -> Answer:
    return replace(answer, named=tuple(name for name in answer.named if name in causes))
