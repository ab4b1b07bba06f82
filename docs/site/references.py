"""The documents and papers that scenarios cite: one page, with an anchor for each work and the scenarios it is in."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from words import escaped, link, slug, table

from trainwreck.scenarios.catalogue import citations as documents

PAGE = "catalogue/references.md"
# As the pages of scenarios shorten the titles of `scenarios/catalogue/citations.py`.
SHORT = {
    "Debugging Divergent Loss": documents.DIVERGENT_LOSS,
    "Recognizing the symptoms": documents.SYMPTOMS,
    "Debugging Training Instability": documents.INSTABILITY,
    "Reading the Curves": documents.READING_CURVES,
    "Debugging training": documents.DEBUGGING,
}
NAME = r"[A-Z][\w'-]+"
PAPER = re.compile(
    rf"^(?P<who>{NAME}(?: {NAME}| \d)*?(?:, {NAME})*(?: et al\.| and {NAME})?) \(?(?P<year>(?:19|20)\d\d)\b"
)

THREAD = re.compile(r"^[\w.-]+/[\w.-]+#\d+")  # of a public repository


@dataclass
class Work:
    """A cited work. quoted: quotations from a paper, most often its title."""

    name: str
    quoted: dict[str, None] = field(default_factory=dict)
    scenarios: dict[str, str] = field(default_factory=dict)  # id to page

    @property
    def anchor(self) -> str:
        return slug(self.name)


def citations(text: str) -> list[str]:
    """The parts of a References section; a semicolon in brackets or quotes does not separate."""
    joined, parts, depth, quoted = " ".join(text.split()).removesuffix("."), [""], 0, False
    for sign in joined:
        quoted ^= sign == '"'
        depth += (sign == "(") - (sign == ")")
        if sign == ";" and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def work_of(citation: str) -> str | None:
    """The name of the work that a citation begins with: a document, a paper with its year, or a thread; else None."""
    for short, title in SHORT.items():
        if citation.startswith(short):
            return title
    if thread := THREAD.match(citation):
        return thread[0]
    found = PAPER.match(citation)
    return f"{found['who']} {found['year']}" if found else None


def collect(pages: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Work]:
    """Every work by name. pages: the site's page of each scenario, and `trainwreck.scenarios.spec.pages.page` of it."""
    works = {title: Work(title) for title in SHORT.values()}
    for path, facts in pages:
        for title in facts["sources"]:
            works.setdefault(title, Work(title)).scenarios[facts["id"]] = path
        for citation in citations(facts["sections"].get("References", "")):
            name = work_of(citation)
            if name is None:
                continue
            work = works.setdefault(name, Work(name))
            work.scenarios[facts["id"]] = path
            for title in re.findall(r', "([^"]+)"', citation):
                work.quoted.setdefault(title.rstrip("."))
    return works


def linked(citation: str, page: str) -> str:
    """A citation as Markdown, its work linked to the page of references."""
    name = work_of(citation)
    return link(escaped(citation), f"{PAGE}#{slug(name)}", page) if name else escaped(citation)


def page(works: dict[str, Work]) -> str:
    """The page of references."""
    documents_: list[tuple[str, str]] = []
    papers: list[tuple[str, str]] = []
    for name in sorted(works, key=str.lower):
        work = works[name]
        scenarios = ", ".join(link(f"`{id}`", path, PAGE) for id, path in sorted(work.scenarios.items()))
        quoted = "; ".join(escaped(text) for text in work.quoted)
        row = (f'<a id="{work.anchor}"></a>{escaped(name)}{": " + quoted if quoted else ""}', scenarios)
        (documents_ if name in SHORT.values() else papers).append(row)
    return (
        "# References\n\nThe works that the pages of the catalogue cite.\n\n## Documents\n\n"
        + table(("document", "scenarios"), documents_)
        + "\n## Papers\n\n"
        + table(("paper", "scenarios"), papers)
    )
