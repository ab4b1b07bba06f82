"""A quiz as one HTML file that loads nothing. Runs are packed one by one, and their truths apart from them.

What is packed can't be read in the page's source, but by whoever runs the page's script by hand. What must stay secret
stays out of the page (`trainwreck quiz --sealed`).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from trainwreck.evaluation.constants import COSTS, HEADLINE_COST, HEADLINE_PREVALENCE, RESPONSE
from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import CHART, INFLATE, THEME
from trainwreck.evaluation.pages.quiz.answers import FORMAT, LONGEST_NAME, MOST_NAMED, VERSION
from trainwreck.evaluation.pages.quiz.curves import curves, described
from trainwreck.evaluation.pages.quiz.guesses import examples, four
from trainwreck.evaluation.pages.quiz.quiz import BAR, Quiz
from trainwreck.evaluation.pages.quiz.truth import truths
from trainwreck.evaluation.pages.templates import beside, deflated, in_script, template
from trainwreck.evaluation.scoring.reference import baseline

SCRIPTS = ("sha256.js", "scores.js", "choice.js", "reveal.js", "play.js")  # in the order in which they need each other
SPEEDS = (2, 5, 10, 25, 60)  # rows a second


def write_page(
    out: Path,
    dataset: DataSet,
    quiz: Quiz,
    titles: Mapping[str, str],
    *,
    sealed: bool = False,
    speed: int = 10,
    beginner: bool = False,
) -> None:
    """Write the page. titles: what each cause that may be named is, in a line. sealed: without the truths.

    speed: rows a second to begin with, one of `SPEEDS`. beginner: four causes to choose from at a stop, not all.
    """
    content = page_data(dataset, quiz, titles, sealed=sealed, speed=speed, beginner=beginner)
    page = template("trainwreck.evaluation.pages.quiz", "quiz.html.jinja").render(
        palette=Markup(asset("palette.css")),
        own_style=beside("trainwreck.evaluation.pages.quiz", "quiz.css"),
        data=in_script(content),
        shared=Markup(script(*THEME, *CHART, *INFLATE)),
        own=beside("trainwreck.evaluation.pages.quiz", *SCRIPTS),
        quiz=quiz,
        sealed=sealed,
        beginner=beginner,
        speeds=SPEEDS,
        speed=speed,
        most=MOST_NAMED,
        longest=LONGEST_NAME,
    )
    write_text(out, page)


def page_data(
    dataset: DataSet, quiz: Quiz, titles: Mapping[str, str], *, sealed: bool, speed: int, beginner: bool
) -> dict[str, Any]:
    """What the page's script reads. Of runs, truths and examples only packed text."""
    shown = [curves(dataset.trace(run_id), quiz.recipe.profile) for run_id in quiz.runs["run_id"]]
    if beginner:
        shown = [
            one | {"four": four(quiz, dataset, name)} for one, name in zip(shown, quiz.runs["run_id"], strict=True)
        ]
    names = list(dict.fromkeys(name for one in shown for name in one["signals"]))
    found = {
        "format": FORMAT,
        "version": VERSION,
        "quiz": quiz.recipe.to_json(),
        "quiz_id": quiz.recipe.id,
        "signals": described(names),
        "choices": [
            {"name": cause, "family": family, "title": titles.get(cause, "")}
            for cause, family in sorted(quiz.families.items(), key=lambda item: (item[1], item[0]))
        ],
        "most_named": MOST_NAMED,
        "speed": speed,
        "beginner": beginner,
        "runs": [_packed(one) for one in shown],
        "truths": None,
    }
    if not sealed:
        found["truths"] = [_packed(one) for one in truths(dataset, quiz)]
        found["scale"] = _packed(scale(quiz))
        named = sorted({name for one in shown for name in one["four"]} if beginner else quiz.families)
        found["examples"] = _packed(examples(dataset, quiz, named))
    return found


def scale(quiz: Quiz) -> dict[str, Any]:
    """What W* uses on these runs: the constants, and the utilities of the best blind policy and of an oracle."""
    blind = baseline(quiz.runs, quiz.recipe.profile).blind[HEADLINE_COST, HEADLINE_PREVALENCE]
    known = blind.value == blind.value and blind.ceiling > blind.value
    return {
        "response": RESPONSE,
        "cost": COSTS[HEADLINE_COST],
        "prevalence": HEADLINE_PREVALENCE,
        "blind": blind.value if known else None,
        "ceiling": blind.ceiling if known else None,
        "bar": list(BAR),
    }


def _packed(content: dict[str, Any]) -> str:
    return deflated(json.dumps(content, separators=(",", ":"), allow_nan=False).encode())
