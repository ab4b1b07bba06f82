"""The catalogue as data: a line, or a page, a scenario, and how they are printed."""

import dataclasses
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.dataset.schema import JOINT, LOGGING
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import LINES, WIDTH, Names
from trainwreck.scenarios.config.settings import as_dict
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec.proofs import proven_at, proven_here
from trainwreck.scenarios.spec.registry import scenario, scenarios
from trainwreck.scenarios.spec.run_spec import Role, RunSpec
from trainwreck.scenarios.spec.scenario import Scenario, Severity

if TYPE_CHECKING:
    import pandas as pd

    from trainwreck.evaluation.dataset.dataset import DataSet


def summary() -> list[dict[str, Any]]:
    """One dict a scenario: id, family, kind, severities, sizes, sources, proven, title.

    Those of installed packages come last; one that does not load is left out, and says why when it is asked for.
    """
    return [_facts(entry) for entry in (*scenarios().values(), *_installed())]


def page(name: str) -> dict[str, Any]:
    """A scenario's facts, knobs by severity, clauses of the signature that are checked, and sections of its page."""
    entry = scenario(name)
    levels = {level.value: knobs for level, knobs in entry.severities.items()} or {"": entry.knobs}
    knobs = {level: as_dict(k) for level, k in levels.items()}
    changed = sorted({f.name for k in levels.values() for f in dataclasses.fields(k)})
    return _facts(entry) | {
        "telling": entry.telling,
        "made_of": [kind.value for kind in entry.kinds],
        "knobs": changed,
        "knobs_by_severity": knobs,
        "tolerance": entry.tolerance,
        "checked": entry.checked(),
        "sections": entry.page(),
    }


def causes(dataset: "DataSet", *, whole_catalogue: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    """Family and title by id of the causes in a data set, and of the catalogue's others."""
    pages = dataset.pages
    families = {
        name: family
        for cause, of in zip(dataset.runs["cause"], dataset.runs["family"], strict=True)
        if cause
        for name, family in zip(cause.split(JOINT), of.split(JOINT), strict=True)
    }
    titles = {name: pages[name]["title"] for name in families if name in pages}
    if whole_catalogue:
        for row in summary():
            if row["kind"] == "failing" or row["family"] == LOGGING:
                families.setdefault(row["id"], row["family"])
                titles.setdefault(row["id"], row["title"])
    return families, titles


def _installed() -> Iterator[Scenario]:
    for name in outside.plugins():
        if name not in scenarios():
            with suppress(InputError):
                yield scenario(name)


def _proven(entry: Scenario, identities: dict[tuple[str, str], str]) -> list[str]:
    """Sizes at which a scenario is proven: by the record, and one from outside by `verify` on this machine."""
    if not outside.is_outside(entry.id):
        return proven_at(entry.id, identities)
    source = outside.source_of(entry.id)
    lacking = {size for (size, _), identity in identities.items() if not proven_here(entry.id, identity, source)}
    return [size.value for size in entry.sizes if size.value not in lacking]


def _facts(entry: Scenario) -> dict[str, Any]:
    levels: list[Severity | None] = [*entry.severities] or [None]
    identities = {
        (size.value, level.value if level else ""): RunSpec(entry.id, Role.FAULTY, 0, size, level).identity
        for size in entry.sizes
        for level in levels
    }
    return {
        "id": entry.id,
        "title": entry.title(),
        "family": entry.family_name,
        "kind": "look-alike" if entry.look_alike else "failing",
        "version": entry.version,
        "severities": [level.value for level in entry.severities],
        "sizes": [size.value for size in entry.sizes],
        "sources": list(entry.sources),
        "proven": _proven(entry, identities),
    }


class Rows(list[dict[str, Any]]):
    """One dict a thing, with the same keys in each; `to_frame()` is the table."""

    def to_frame(self) -> "pd.DataFrame":
        """A row a thing, a column a key."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def __repr__(self) -> str:
        return repr(Names((row["id"], row) for row in self))

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(max_rows=LINES)


class Page(dict[str, Any]):
    """The page of a scenario. Printed are its title and the beginning of each section."""

    def __repr__(self) -> str:
        sections = (f"  {name}: {textwrap.shorten(text, WIDTH)}" for name, text in self["sections"].items())
        return "\n".join([f"{self['id']}: {self['title']}", *sections, f"  keys: {', '.join(self)}"])

    def _repr_html_(self) -> str:
        sections = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in self["sections"].items())
        return f"<p><b>{escape(self['id'])}</b>: {escape(self['title'])}</p><dl>{''.join(sections)}</dl>"
