"""Answers as alarms: of each player, and of the room.

The room is all who judged a run. Its score at a step is the share of them who have said stop by then, so that a
threshold can be set on it like on any detector's; its own alarm is the step at which that is more than half, which is
their median stop. It names what those who have stopped by then named most often.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from trainwreck.evaluation.pages.quiz.answers import MOST_NAMED, NOTHING, UNANSWERED, Answer, Sheet
from trainwreck.evaluation.pages.quiz.quiz import Quiz, spoken
from trainwreck.evaluation.replay.alarms import OK, Alarms, rising_edges

ROOM = "room"
ROOM_RULE = "more than half of the players have said stop"


def player_alarms(sheet: Sheet, quiz: Quiz) -> dict[str, Alarms]:
    """Alarms of a player on each run, by run_id. The sheet has passed `check_sheet`."""
    return {
        run_id: spoken(run_id, quiz.shown(run_id), answer.spoken())
        for run_id, answer in zip(quiz.runs["run_id"], sheet.answers, strict=True)
    }


def answers_by_run(sheets: Sequence[Sheet], quizzes: Mapping[str, Quiz]) -> dict[str, list[Answer]]:
    """The answers to each run, by run_id, in the order of the sheets; those who gave none are left out."""
    found: dict[str, list[Answer]] = {}
    for sheet in sheets:
        for run_id, answer in zip(quizzes[sheet.recipe.id].runs["run_id"], sheet.answers, strict=True):
            found.setdefault(run_id, [])
            if answer.said != NOTHING:
                found[run_id].append(answer)
    return found


def room_alarms(run_id: str, shown: range, answers: Sequence[Answer]) -> Alarms:
    """Alarms of the room on a run. shown: steps of the rows. Without an answer the status is UNANSWERED."""
    steps = np.array(shown if answers else (), dtype=np.int64)
    stops = np.sort([answer.step for answer in answers if answer.step is not None])
    scores = np.searchsorted(stops, steps, side="right") / max(1, len(answers))
    alarm = scores > 0.5
    first = int(steps[alarm.argmax()]) if alarm.any() else None
    return Alarms(
        run_id=run_id,
        steps=steps,
        scores=scores,
        alarm=alarm,
        edges=rising_edges(steps, alarm),
        first_alarm=first,
        causes=_named(answers, first) if first is not None else (),
        status=OK if answers else UNANSWERED,
        update_us=0.0,
        state_bytes=None,
    )


def _named(answers: Sequence[Answer], first: int) -> tuple[str, ...]:
    """Names by how many put them first, then by how many have them at all, then by the alphabet."""
    voters = [answer for answer in answers if answer.step is not None and answer.step <= first]
    leading = Counter(answer.named[0] for answer in voters if answer.named)
    mentioned = Counter(name for answer in voters for name in answer.named)
    ranked = sorted(mentioned, key=lambda name: (-leading[name], -mentioned[name], name))
    return tuple(ranked[:MOST_NAMED])
