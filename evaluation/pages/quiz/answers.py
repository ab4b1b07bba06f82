"""What a player exports: one answer a run. `answers.schema.json` has the format.

The checksum detects a file that was edited by hand or cut off. The page makes it, so it authenticates nobody.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.constants import TOP, UNKNOWN
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.files import read_json, write_json
from trainwreck.evaluation.pages.quiz.quiz import Quiz, Said
from trainwreck.evaluation.pages.quiz.recipe import Recipe
from trainwreck.evaluation.replay.alarms import OK, TIMEOUT

FORMAT = "trainwreck-quiz-answers"
VERSION = 1
FIELDS = ("format", "version", "quiz", "quiz_id", "player", "sitting", "answers", "checksum")
ANSWER_FIELDS = ("run", "said", "step", "named", "seconds")
STOP, HEALTHY, NOTHING = "stop", "healthy", "nothing"
VERDICTS = (STOP, HEALTHY, NOTHING)
MOST_NAMED = max(TOP)
LONGEST_NAME = 60
UNANSWERED = f"{TIMEOUT}: no answer"


@dataclass(frozen=True)
class Answer:
    """Of run number `run`, from 1. said: stop at `step`, healthy (it ran to its end), or nothing (not answered).

    named: causes or families at the stop, the likeliest first; "unknown" for a cause that is not on the list.
    """

    run: int
    said: str
    step: int | None = None
    named: tuple[str, ...] = ()
    seconds: int = 0

    def spoken(self) -> Said:
        """As a detector's. A run without an answer is one that nobody watched."""
        status = UNANSWERED if self.said == NOTHING else OK
        return Said(self.step, () if self.step is None else (self.step,), self.named, status)

    def to_json(self) -> dict[str, Any]:
        """As in an export."""
        return {
            "run": self.run,
            "said": self.said,
            "step": self.step,
            "named": list(self.named),
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Sheet:
    """The answers of one player in one sitting."""

    player: str
    sitting: str
    recipe: Recipe
    answers: tuple[Answer, ...]
    path: Path | None = None

    @property
    def where(self) -> str:
        """What a complaint begins with."""
        return str(self.path or self.player)


def write_sheet(path: Path, sheet: Sheet) -> None:
    """Write an export, as the page does."""
    write_json(
        path,
        {
            "format": FORMAT,
            "version": VERSION,
            "quiz": sheet.recipe.to_json(),
            "quiz_id": sheet.recipe.id,
            "player": sheet.player,
            "sitting": sheet.sitting,
            "answers": [answer.to_json() for answer in sheet.answers],
            "checksum": checksum(sheet),
        },
    )


def checksum(sheet: Sheet) -> str:
    """SHA-256 over a line for quiz, sitting and player and one an answer."""
    lines = [f"{sheet.recipe.id} {sheet.sitting} {sheet.player}"]
    for one in sheet.answers:
        step = "" if one.step is None else one.step
        lines.append(f"{one.run} {one.said} {step} {','.join(one.named)} {one.seconds}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_sheet(path: Path) -> Sheet:
    """An export as it says it is; `check_sheet` holds it against its quiz.

    InputError with file and field for what is damaged, edited, not an export or of another version.
    """
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not answers; allowed: what `trainwreck quiz` exports")
    if content.get("version") != VERSION:
        raise InputError(f"{path}: version: {content.get('version')!r} is not allowed; allowed: {VERSION}")
    _check_fields(f"{path}", content, FIELDS)
    recipe = Recipe.read(content["quiz"], str(path))
    if content["quiz_id"] != recipe.id:
        raise InputError(f"{path}: quiz_id: {content['quiz_id']!r} is not that of its quiz, {recipe.id!r}")
    player, sitting, answers = content["player"], content["sitting"], content["answers"]
    if not is_name(player):
        raise InputError(f"{path}: player: {player!r} is not allowed; allowed: {NAME}")
    if not isinstance(sitting, str) or not re.fullmatch(r"[0-9a-f]{16}", sitting):
        raise InputError(f"{path}: sitting: {sitting!r} is not allowed; allowed: 16 hexadecimal digits")
    if not isinstance(answers, list):
        raise InputError(f"{path}: answers: {answers!r} is not allowed; allowed: a list")
    sheet = Sheet(player, sitting, recipe, tuple(_answer(path, at, one) for at, one in enumerate(answers)), path)
    if content["checksum"] != checksum(sheet):
        raise InputError(f"{path}: checksum: edited or damaged, it is not that of the answers")
    return sheet


NAME = f"one line of 1 to {LONGEST_NAME} letters"


def is_name(text: object) -> bool:
    """Whether a player may have this name."""
    return isinstance(text, str) and text == text.strip() and 0 < len(text) <= LONGEST_NAME and text.isprintable()


def check_sheet(sheet: Sheet, quiz: Quiz) -> None:
    """InputError with file, run and field for answers that the quiz can't have got."""
    where = sheet.where
    if sheet.recipe != quiz.recipe:
        raise InputError(f"{where}: quiz_id: {sheet.recipe.id!r} is another quiz; allowed: {quiz.recipe.id!r}")
    if [answer.run for answer in sheet.answers] != list(range(1, len(quiz.runs) + 1)):
        raise InputError(f"{where}: answers: not one for each of the runs 1 to {len(quiz.runs)}, in their order")
    allowed = {*quiz.families, *quiz.families.values(), UNKNOWN}
    for answer, run_id in zip(sheet.answers, quiz.runs["run_id"], strict=True):
        shown = quiz.shown(run_id)
        if answer.step is not None and answer.step not in shown:
            raise InputError(
                f"{where}: run {answer.run}: step: {answer.step} is not allowed; allowed: a step of a row that was "
                f"shown, {shown[0] if len(shown) else 0} to {shown[-1] if len(shown) else 0} by {shown.step}"
            )
        for name in answer.named:
            if name not in allowed:
                raise InputError(f"{where}: run {answer.run}: {unknown('named', name, sorted(allowed))}")


def _answer(path: Path, at: int, content: Any) -> Answer:
    where = f"{path}: answers[{at}]"
    if not isinstance(content, Mapping):
        raise InputError(f"{where}: {content!r} is not allowed; allowed: {', '.join(ANSWER_FIELDS)}")
    _check_fields(where, content, ANSWER_FIELDS)
    said, named = content["said"], content["named"]
    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "run": (lambda value: _is_count(value, 1), "1 and more"),
        "said": (lambda value: value in VERDICTS, ", ".join(VERDICTS)),
        "step": (
            (lambda value: _is_count(value, 0)) if said == STOP else (lambda value: value is None),
            "a step where it was stopped, else null",
        ),
        "named": (lambda value: _are_names(value, MOST_NAMED if said == STOP else 0), _NAMES),
        "seconds": (lambda value: _is_count(value, 0), "0 and more"),
    }
    for field, (right, allowed) in rules.items():
        if not right(content[field]):
            raise InputError(f"{where}.{field}: {content[field]!r} is not allowed; allowed: {allowed}")
    return Answer(content["run"], said, content["step"], tuple(named), content["seconds"])


_NAMES = f"up to {MOST_NAMED} causes or families where it was stopped, each once"


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 10**9


def _are_names(value: object, most: int) -> bool:
    if not isinstance(value, list) or len(value) > most:
        return False
    return all(isinstance(name, str) and name for name in value) and len(set(value)) == len(value)


def _check_fields(where: str, content: Mapping[str, Any], fields: Sequence[str]) -> None:
    for name in content:
        if name not in fields:
            raise InputError(f"{where}: {unknown('field', name, fields)}")
    for name in fields:
        if name not in content:
            raise InputError(f"{where}: {name}: missing")
