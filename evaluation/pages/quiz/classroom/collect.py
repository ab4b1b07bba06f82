"""From files of answers to sheets, and to the quizzes that they are answers to."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet, load, telemetry_digest
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.quiz.answers import Sheet, read_sheet
from trainwreck.evaluation.pages.quiz.classroom.scores import check_room
from trainwreck.evaluation.pages.quiz.key import read_key
from trainwreck.evaluation.pages.quiz.quiz import Quiz, make
from trainwreck.evaluation.progress import Tick

Causes = Callable[[DataSet], tuple[dict[str, str], Any]]
"""Family of each cause that may be named on a data set, and whatever else."""


def collect(paths: Sequence[Path]) -> list[Sheet]:
    """The sheets of files, and of those that lie directly in folders. InputError for the first that is none."""
    files: list[Path] = []
    for path in paths:
        found = sorted(file for file in path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"exports: {str(path)!r} holds no .json file")
        files += found
    sheets = [read_sheet(file) for file in files]
    check_room(sheets)
    return sheets


def quizzes_of(
    sheets: Sequence[Sheet],
    keys: Sequence[Path],
    data: Path,
    causes: Causes,
    detectors: Sequence[str] | None = None,
    tick: Tick | None = None,
) -> dict[str, Quiz]:
    """Each quiz that the sheets are of, by id: from its key, or made again from the data set.

    InputError for a key that no sheet is of, and for a sheet whose quiz is neither of a key nor of the data set.
    """
    recipes = {sheet.recipe.id: sheet for sheet in sheets}
    found: dict[str, Quiz] = {}
    for path in keys:
        quiz = read_key(path)
        if quiz.recipe.id in found:
            raise InputError(f"{path}: quiz_id: {quiz.recipe.id!r} is that of another key; allowed: each once")
        found[quiz.recipe.id] = quiz
    left = {name: sheet for name, sheet in recipes.items() if name not in found}
    if keys and left:
        name, sheet = next(iter(left.items()))
        raise InputError(
            f"{sheet.where}: quiz_id: {name!r} is of none of the keys; allowed: {', '.join(sorted(found))}"
        )
    for path, name in zip(keys, found, strict=True):
        if name not in recipes:
            raise InputError(f"{path}: quiz_id: {name!r} has no answers here; allowed: {', '.join(sorted(recipes))}")
    if left:
        dataset = load(data)
        telemetry = telemetry_digest(dataset)
        families, _ = causes(dataset)
        for name, sheet in left.items():
            if sheet.recipe.telemetry != telemetry:
                raise InputError(
                    f"{sheet.where}: quiz.telemetry: {sheet.recipe.telemetry[:12]} is not that of {data}, "
                    f"{telemetry[:12]}; allowed: --data with the quiz's data set, or --key"
                )
            found[name] = make(dataset, sheet.recipe, families, detectors, tick)
    return found
