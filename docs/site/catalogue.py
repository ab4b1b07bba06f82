"""The catalogue's pages, from the registry: one a scenario, one a family, an index, and the references."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import references
import vocabulary
from words import escaped, link, slug, table

from trainwreck.evaluation.pages.figures import gap_unit
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.spec.proofs import recorded, unproven
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.views.page import page as facts_of

ROOT = Path(__file__).resolve().parents[2]
INDEX = "catalogue/index.md"


def pages() -> dict[str, str]:
    """Path from the root of the pages to content."""
    facts = {path_of(id): facts_of(id) for id in scenarios()}
    works = references.collect(facts.items())
    made = {path: scenario_page(path, entry) for path, entry in facts.items()}
    for family in families():
        made[family_path(family)] = family_page(family, [f for f in facts.values() if f["family"] == family])
    return made | {INDEX: index(list(facts.values())), references.PAGE: references.page(works)}


def families() -> list[str]:
    """The families that have scenarios, in the catalogue's order."""
    return list(dict.fromkeys(entry.family_name for entry in scenarios().values()))


def family_path(family: str) -> str:
    """The page of a family."""
    return f"catalogue/{slug(family)}/index.md"


def path_of(id: str) -> str:
    """The page of a scenario."""
    return f"catalogue/{slug(scenarios()[id].family_name)}/{id}.md"


def index(facts: list[dict[str, Any]]) -> str:
    """Families, and what could not be proven."""
    rows = []
    for family in families():
        own = [f for f in facts if f["family"] == family]
        rows.append((link(escaped(family), family_path(family), INDEX), str(len(own)),
                     ", ".join(link(f"`{f['id']}`", path_of(f["id"]), INDEX) for f in own)))  # fmt: skip
    tried = [(f"`{row['id']}`", escaped(row["family"]), escaped(row["tried"])) for row in unproven()]
    return (
        f"# The catalogue\n\n{len(facts)} scenarios, each proven on many seeds. Every page has the failure, its\n"
        f"mechanism, the injection, the signature and the cure. The shapes that signatures use are in the\n"
        f"{link('vocabulary', vocabulary.PAGE, INDEX)}, the works that are cited in the\n"
        f"{link('references', references.PAGE, INDEX)}.\n\n"
        + table(("family", "scenarios", ""), rows)
        + "\n## Documented, and not proven\n\n"
        + table(("id", "family", "what was tried"), tried)
    )


def family_page(family: str, facts: list[dict[str, Any]]) -> str:
    """A family's scenarios as a table."""
    page = family_path(family)
    rows = [(link(f"`{f['id']}`", path_of(f["id"]), page), escaped(f["title"]), f"`{f['telling']}`",
             ", ".join(f["severities"]) or "-") for f in facts]  # fmt: skip
    return f"# {family.capitalize()}\n\n" + table(("scenario", "what happens", "shows best in", "severities"), rows)


def scenario_page(path: str, facts: dict[str, Any]) -> str:
    """Everything that is known of a scenario."""
    id = facts["id"]
    head = [
        ("family", link(escaped(facts["family"]), family_path(facts["family"]), path)),
        ("kind", facts["kind"]),
        ("made of", escaped(", ".join(facts["made_of"]))),
        ("severities", ", ".join(facts["severities"]) or "no scale"),
        ("sizes", ", ".join(facts["sizes"])),
        ("shows best in", link(f"`{facts['telling']}`", "docs/schema.md", path)),
        ("proven at", ", ".join(facts["proven"]) or "not as it is now"),
        ("version", str(facts["version"])),
    ]
    parts = [f"# {id}\n\n{escaped(facts['title'])}\n", table(head[0], head[1:])]
    picture = picture_of(id)
    if picture:
        parts.append(f"![Curves of {id}, its twin and its cure]({relative(picture, path)})\n")
    for name, text in facts["sections"].items():
        body = escaped(" ".join(text.split()))
        if name == "References":
            body = "\n".join(f"- {references.linked(part, path)}" for part in references.citations(text))
        parts.append(f"## {name}\n\n{body}\n")
        if name == "Signature":
            by = [(escaped(clause), f"`{expression}`") for clause, expression in facts["checked"].items()]
            parts += [table(("checked", "by"), by) if by else "", vocabulary.words_of(id, path)]
        if name == "Injection":
            parts += [setup(facts), changed_lines(facts)]
    run = f"## Run it\n\n```\ntrainwreck run {id}\n```\n"
    parts += [knobs(facts), proof(id), told_apart(id, path), caught(id), run]
    return "\n".join(part for part in parts if part)


def setup(facts: dict[str, Any]) -> str:
    """The base in words, and what of it is not the default of its size."""
    rows = [(f"`{row['setting']}`", f"`{_value(row['default'])}`", f"`{_value(row['here'])}`")
            for row in facts["settings"]]  # fmt: skip
    head = ("setting", f"default of size {facts['size']}", "here")
    found = table(head, rows) if rows else f"No setting differs from the default of size {facts['size']}.\n"
    return f"## Setup\n\n{escaped(facts['base'])}\n\n{found}"


def changed_lines(facts: dict[str, Any]) -> str:
    """The lines of the exported program that go and come with the fault."""
    text = f"{facts['when']} The lines are those of the program that `trainwreck reproducer {facts['id']}` writes."
    shown = "\n".join(["```diff", *facts["lines"], "```"]) if facts["lines"] else escaped(facts["no_lines"])
    what = "deviation" if facts["kind"] == "look-alike" else "fault"
    return f"## Lines that the {what} changes\n\n{text}\n\n{shown}\n"


def relative(target: str, page: str) -> str:
    """A file of the site as a page links to it."""
    return link("", target, page)[3:-1]


def picture_of(id: str) -> str:
    """Where the picture of a scenario is, from the root of the pages; empty where there is none."""
    if (ROOT / "results" / "demo" / "pictures" / f"{id}.png").exists():
        return f"results/demo/pictures/{id}.png"
    return f"catalogue/pictures/{id}.png" if id in dict(drawable()) else ""


@cache
def drawable() -> tuple[tuple[str, str], ...]:
    """Scenarios that only the shipped sample has curves of, and the run to draw."""
    import trainwreck

    runs = trainwreck.load(trainwreck.sample()).runs
    faulty = runs[runs.kind.isin(["failing", "look-alike"])].drop_duplicates("scenario")
    drawn = {path.stem for path in (ROOT / "results" / "demo" / "pictures").glob("*.png")}
    return tuple((str(row.scenario), str(row.Index)) for row in faulty.itertuples() if row.scenario not in drawn)


def draw(folder: Path) -> None:
    """The pictures of what is `drawable`, into catalogue/pictures/ under the folder of the pages."""
    import trainwreck

    data = trainwreck.load(trainwreck.sample())
    for id, run_id in drawable():
        picture = folder / "catalogue" / "pictures" / f"{id}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        trainwreck.figure(data.trace(run_id)).savefig(picture, dpi=110)


def knobs(facts: dict[str, Any]) -> str:
    """The knobs of the scenario, by severity."""
    if not facts["knobs"]:
        return ""
    levels = facts["knobs_by_severity"]
    rows = [[f"`fault.{knob}`", *(f"`{values[knob]}`" for values in levels.values())] for knob in facts["knobs"]]
    return "## Knobs\n\n" + table(("", *(level or "value" for level in levels)), rows)


def proof(id: str) -> str:
    """What `trainwreck verify` recorded; settings that were tried and not proven as well."""
    rows = [
        (
            row["severity"] or "-",
            ", ".join(f"`{text}`" for text in row["overrides"]) or row["size"],
            "yes" if row["proven"] else "**no**",
            str(row["seeds"]),
            *(_share(row[name]) for name in ("signature_faulty", "signature_twin", "signature_healthy", "cured")),
            "-" if row["first_signal"] is None else f"`{row['first_signal']}`",
            _number(row["gap"]),
        )
        for row in recorded()
        if row["scenario"] == id
    ]
    entry = scenario(id)
    objective = entry.base(healthy(entry.sizes[0])).objective.value
    head = ("severity", "at", "proven", "seeds", "signature: faulty", "twin", "healthy", "cured", "shows first in",
            f"final gap ({gap_unit(objective)})")  # fmt: skip
    return "## Proof\n\n" + table(head, rows) if rows else ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def told_apart(id: str, path: str) -> str:
    """The causes that a profile does not distinguish from this one."""
    sets = json.loads((ROOT / "evaluation" / "scoring" / "equivalence_sets.json").read_text(encoding="utf-8"))
    if id not in sets["causes"]:
        return ""
    rows = []
    for profile, found in sets["profiles"].items():
        others = [other for group in found["sets"] if id in group for other in group if other != id]
        names = ", ".join(link(f"`{other}`", path_of(other), path) for other in others) or "none"
        rows.append((profile, "not visible" if id in found["undetectable"] else names))
    return f"## Not distinguished from\n\nMeasured ({link('how', 'results/equivalence/README.md', path)}):\n\n" + table(
        ("profile", "causes"), rows
    )


@cache
def preflight() -> dict[str, list[tuple[str, str]]]:
    """Scenario to the checks before a run that fail on it, with the evidence."""
    rows = json.loads((ROOT / "results" / "preflight" / "result.json").read_text(encoding="utf-8"))
    return {r["scenario"]: [(c["check"], c["evidence"]) for c in r["faulty"] if c["verdict"] == "fail"] for r in rows}


def caught(id: str) -> str:
    """What the checks before a run say of it."""
    failed = preflight().get(id)
    if not failed:
        return ""
    return "## Caught before a run by\n\n" + table(("check", "evidence"), [(f"`{c}`", escaped(e)) for c, e in failed])


def in_family() -> Iterator[tuple[str, list[str]]]:
    """Each family with the pages of its scenarios, for the menu."""
    for family in families():
        yield family, [path_of(id) for id, entry in scenarios().items() if entry.family_name == family]
