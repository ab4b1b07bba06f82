"""A scenario's page: its facts and text, its base in words, its settings, and the lines that its fault changes.

    python -m trainwreck.scenarios.views.page    # renews the lines of the catalogue, in fault_lines.json

The lines are read from that file, since the program that they are of takes torch to write; a test compares the two.
Those of a scenario from elsewhere are made when they are asked for.
"""

import inspect
import json
from functools import cache
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, as_dict, leaves
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.spec import pages
from trainwreck.scenarios.spec.registry import CATALOGUE, scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import MidRun, Scenario

LINES = Path(__file__).with_name("fault_lines.json")


def page(name: str) -> dict[str, Any]:
    """A scenario's facts, its text, and what `injected` says of it. name: an id, two joined by +, or `mine.py:Mine`."""
    return pages.page(name) | injected(name)


def injected(name: str) -> dict[str, Any]:
    """What is trained, and what is wrong in it, at the first size and the default severity; JSON-safe.

    size, base (in words), settings (rows of setting, default of the size, here), when (a sentence: the severity and the
    onset), lines (of `reproducers.lines`, with their signs) and no_lines: why there is none, else empty.
    """
    entry = scenario(name)
    size, severity = entry.sizes[0], entry.default_severity()
    setup = RunSpec(entry.id, Role.FAULTY, 0, size, severity).setup
    lines, why = lines_of(name)
    when = f"at severity {severity.value}, " if severity else ""
    when += onset_in_words(entry)
    return {
        "size": size.value,
        "base": base_in_words(entry),
        "settings": difference(healthy(size), setup),
        "when": f"{when[0].upper()}{when[1:]}.",
        "lines": lines,
        "no_lines": why,
    }


def difference(default: Setup, here: Setup) -> list[dict[str, Any]]:
    """The settings in which one setup is not the other: dotted path, value in each, as plain JSON types."""
    before, after = (leaves(as_dict(setup)) for setup in (default, here))
    return [{"setting": k, "default": before[k], "here": v} for k, v in after.items() if v != before[k]]


def base_in_words(entry: Scenario) -> str:
    """The healthy setup that a scenario begins with: the first paragraph of its base, or of its size's default."""
    names = inspect.unwrap(type(entry).base).__code__.co_names
    found = [made for name in names if inspect.isfunction(made := getattr(bases, name, None))]
    if JOINT in entry.id:
        return " ".join(dict.fromkeys(base_in_words(scenario(part)) for part in entry.id.split(JOINT)))
    if not found:
        return _first_paragraph(healthy).replace("this size", f"size {entry.sizes[0].value}")
    return _first_paragraph(found[0])


def onset_in_words(entry: Scenario) -> str:
    """From which step on the fault is there."""
    if JOINT in entry.id:
        return "; ".join(f"{part}: {onset_in_words(scenario(part))}" for part in entry.id.split(JOINT))
    if isinstance(entry.onset, MidRun):
        low, high = entry.onset.earliest, entry.onset.latest
        return f"from a step between {low:.0%} and {high:.0%} of the run on, which the seed draws"
    return "from step 0 on"


def lines_of(name: str) -> tuple[list[str], str]:
    """The lines that a fault changes in the plain program, and why there is none where there is none."""
    if JOINT in name:
        both = [lines_of(part)[0] for part in name.split(JOINT)]
        return [*both[0], "", *both[1]], ""
    entry = scenario(name)
    if entry.own_twin:
        return [], "No line changes: the run is its own twin, and all of it is in the settings."
    if type(entry).__module__.startswith(CATALOGUE) and entry.id in recorded():
        return recorded()[entry.id], ""
    from trainwreck.scenarios.reproducers.lines import lines

    try:
        return lines(name), ""
    except InputError as error:
        return [], f"Its fault can't be written as lines of the plain program: {error}"


@cache
def recorded() -> dict[str, list[str]]:
    """The lines of the catalogue's scenarios, by id."""
    found: dict[str, list[str]] = json.loads(LINES.read_text(encoding="utf-8"))
    return found


def renew() -> dict[str, list[str]]:
    """What `recorded` should have."""
    from trainwreck.scenarios.reproducers.lines import lines

    return {id: lines(id) for id, entry in scenarios().items() if not entry.own_twin}


def _first_paragraph(function: Any) -> str:
    return " ".join(inspect.cleandoc(function.__doc__).split("\n\n")[0].split())


if __name__ == "__main__":
    from trainwreck.evaluation.files import write_json

    write_json(LINES, renew())
