"""The page of runs under way as HTML: text, and what its script has to know before the first step."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup, escape

from trainwreck.evaluation.dataset.schema import BY_NAME, SECTIONS, Axis
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import CHART, HEAT, THEME
from trainwreck.evaluation.pages.figures import caption, shown, unit
from trainwreck.evaluation.pages.templates import beside, in_script, template

OPEN = {"Failure": "Failure", "Signature": "What to look for", "Cure": "Cure"}  # sections that are not folded
LAYERED = (Axis.LAYERS, Axis.BLOCKS, Axis.HEADS)


@dataclass(frozen=True)
class Mark:
    """A vertical line at a step. label: "s" for an onset, or "cure". name: what the page calls it."""

    step: int
    label: str
    name: str


@dataclass(frozen=True)
class Show:
    """What is on show. title: of these runs; lead: of the scenario, a line. sections: of its page.

    roles: of the runs, to what they are called. steps: of each run. layers: of the model. floor: entropy of the
    source, None where it is not known.
    """

    scenario: str
    title: str
    lead: str
    tags: Sequence[str]
    sections: Mapping[str, str]
    roles: Mapping[str, str]
    telling: str
    marks: Sequence[Mark]
    steps: int
    layers: int
    floor: float | None = None

    @property
    def signals(self) -> list[str]:
        """A chart for each."""
        return shown(self.telling)

    @property
    def layered(self) -> bool:
        """Whether the most diagnostic signal has one or more numbers for each layer."""
        return BY_NAME[self.telling].axis in LAYERED


def render(show: Show, stream: str) -> str:
    """The page. stream: id of the stream that it follows."""
    return template("trainwreck.evaluation.pages.live_page", "live.html.jinja", coded=coded).render(
        show=show,
        opened=[(title, show.sections[name]) for name, title in OPEN.items() if show.sections.get(name)],
        folded=[(name, show.sections[name]) for name in SECTIONS if name not in OPEN and show.sections.get(name)],
        facts=in_script(_facts(show, stream)),
        style=Markup(asset("palette.css")) + beside("trainwreck.evaluation.pages.live_page", "live.css"),
        scripts=Markup(script(*THEME, *CHART, *HEAT)) + beside("trainwreck.evaluation.pages.live_page", "live.js"),
    )


def coded(text: str) -> Markup:
    """Text in which what stands between backticks is code; a new line after an empty one."""
    marked = re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\n\s*\n", "<br>", marked))


def _facts(show: Show, stream: str) -> dict[str, Any]:
    return {
        "stream": stream,
        "title": show.title,
        "roles": dict(show.roles),
        "steps": show.steps,
        "marks": [asdict(mark) for mark in show.marks],
        "charts": [{"name": name, "label": caption(name), "unit": unit(name)} for name in show.signals],
        "floor": show.floor,
        "telling": {
            "label": show.telling.replace("_", " "),
            "unit": unit(show.telling),
            "axis": BY_NAME[show.telling].axis.value,
            "positive": BY_NAME[show.telling].positive,
            "layered": show.layered,
            "layers": show.layers,
        },
    }
