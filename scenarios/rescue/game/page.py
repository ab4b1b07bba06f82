"""The game as one HTML file that loads nothing: curves up to a decision, and what each choice came to.

Curves and truths are deflated apart, as those of the quiz are: the page's source does not show them.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.dataset.schema import JOINT, SECTIONS
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import CHART, INFLATE, THEME
from trainwreck.evaluation.pages.numbers import written
from trainwreck.evaluation.pages.quiz.curves import curves, described
from trainwreck.evaluation.pages.templates import beside, deflated, in_script, template
from trainwreck.scenarios.rescue.actions import Action
from trainwreck.scenarios.rescue.courses import Course
from trainwreck.scenarios.rescue.game.branches import Courses, note

HERE = "trainwreck.scenarios.rescue.game"
SCRIPTS = ("score.js", "play.js")  # in the order in which they need each other
# Action to the key that chooses it and the words on its button. One choice is to do nothing, one only asks.
WORDS = {
    "stop": ("S", "Stop the run here"),
    "rate=0.1": ("L", "Lower the learning rate to a tenth"),
    "roll_back_and_skip=50": ("B", "Roll back 50 steps and skip 100 batches"),
    "restore=data": ("1", "Restore the data"),
    "restore=mask": ("2", "Restore the mask"),
    "restore=positions": ("3", "Restore the positions"),
    "restore=model": ("4", "Restore the model's code"),
    "restore=updates": ("5", "Restore the updates"),
    "restore=settings": ("6", "Restore the settings"),
    "qk_norm": ("Q", "Normalise queries and keys"),
}


def write_page(out: Path, dataset: DataSet, found: Sequence[Courses], profile: str, block: int) -> None:
    """Write the page. found: runs with all their courses, in the order of play."""
    content = page_data(dataset, found, profile, block)
    page = template(HERE, "game.html.jinja").render(
        palette=Markup(asset("palette.css")),
        own_style=beside("trainwreck.evaluation.pages.quiz", "quiz.css") + beside(HERE, "game.css"),
        data=in_script(content),
        shared=Markup(script(*THEME, *CHART, *INFLATE)),
        own=beside(HERE, *SCRIPTS),
        runs=len(found),
        profile=profile,
        block=block,
        id=content["id"],
        choices=content["choices"],
        points=max(len(one.points) for one in found),
    )
    write_text(out, page)


def page_data(dataset: DataSet, found: Sequence[Courses], profile: str, block: int) -> dict[str, Any]:
    """What the page's script reads: of runs and truths only packed text."""
    runs = [run(one) for one in found]
    names = list(dict.fromkeys(name for one in runs for name in one["untouched"]["signals"]))
    offered = list(dict.fromkeys(action for one in found for _, action in one.branches))
    choices = [
        {"action": name, "key": WORDS[name][0], "words": WORDS[name][1], "price": Action.parse(name).price}
        for name in offered
    ]
    facts = [[one.case.spec.run_id for one in found], profile, block, offered, [one.points for one in found]]
    return {
        "id": hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12],
        "profile": profile,
        "block": block,
        "signals": described(names),
        "choices": choices,
        "runs": [_packed(one) for one in runs],
        "truths": [_packed(truth(dataset, one, profile)) for one in found],
    }


def run(found: Courses) -> dict[str, Any]:
    """What is shown while a run is played.

    options: by decision point and action, `own`, the place in `own` of the rows from step `begins` on, None without a
    row, and `note`, why nothing came of it. Rows that two courses have alike are there once.
    """
    own: list[dict[str, Any]] = []
    options: dict[str, dict[str, Any]] = {}
    for (point, action), branch in found.branches.items():
        rows = branch.rows
        if rows["steps"] and rows not in own:
            own.append(rows)
        place = own.index(rows) if rows["steps"] else None
        options.setdefault(str(point), {})[action] = {"own": place, "begins": branch.begins, "note": note(branch)}
    return {
        "planned": found.case.spec.setup.steps,
        "points": [point for point in found.points if str(point) in options],
        "untouched": found.untouched.rows,
        "asked": {str(point): answer for point, answer in found.answers.items()},
        "options": options,
        "own": own,
    }


def truth(dataset: DataSet, found: Courses, profile: str) -> dict[str, Any]:
    """What is shown of a run at its end: label, scenario's text, twin, and the score of every course."""
    case, pages = found.case, dataset.pages
    row: dict[Any, Any] = dataset.runs.loc[case.spec.run_id].to_dict()
    twin = row["twin_id"] if case.kind != "healthy" and row["twin_id"] in dataset.runs.index else None
    scenario = case.spec.scenario if case.kind != "healthy" else ""
    names = [scenario] if scenario in pages else scenario.split(JOINT)
    scores: dict[str, dict[str, Any]] = {}
    for (point, action), branch in found.branches.items():
        scores.setdefault(str(point), {})[action] = score(branch)
    oracle = found.oracle
    return {
        "kind": case.kind,
        "causes": list(case.causes),
        "pages": [_page(name, pages[name]) for name in names if name in pages],
        "onset": None if row["onset_step"] != row["onset_step"] else int(row["onset_step"]),
        "visible": case.visible,
        "no_return": case.no_return,
        "tolerance": case.tolerance,
        "worth": written(case.worth),
        "recoverable": written(case.recoverable),
        "twin": None if twin is None else curves(dataset.trace(twin), profile),
        "twin_final": written(case.twin),
        "untouched": score(found.untouched),
        "oracle": None if oracle is None else score(oracle) | {"at": oracle.begins, "rows": oracle.rows},
        "scores": scores,
    }


def score(branch: Course) -> dict[str, Any]:
    """Losses and net in nats, spent in runs; final is "nan" where it is not finite."""
    one = branch.outcome
    return {
        "final": written(one.final),
        "saved": written(one.saved),
        "spent": written(one.spent),
        "net": written(one.net),
        "within": one.within,
        "harmed": one.harmed,
        "ended": one.ended,
    }


def _page(name: str, page: dict[str, Any]) -> dict[str, Any]:
    sections = [(name, " ".join(page["sections"][name].split())) for name in SECTIONS if name in page["sections"]]
    return {"id": name, "title": page["title"], "family": page["family"], "sections": sections}


def _packed(content: dict[str, Any]) -> str:
    return deflated(json.dumps(content, separators=(",", ":"), allow_nan=False).encode())
