"""Scenarios on paper: an A4 page each, with one figure and five lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import write_text
from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import THEME
from trainwreck.evaluation.pages.figures import Story, curve_name, draw, png_url
from trainwreck.evaluation.pages.gallery.build import opened, pages_of
from trainwreck.evaluation.pages.gallery.choose import Exhibit, exhibits
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue, as_step
from trainwreck.evaluation.pages.templates import template

EIGHT = (
    "high_lr", "no_warmup", "post_ln_depth", "fp16_attention_overflow", "corrupt_tokens", "mask_missing",
    "rope_wrong_frequency", "stale_optimizer_state",
)  # fmt: skip
"""The failures that every course on training names; the data set `demo` has all of them."""
DPI = 160


@dataclass(frozen=True)
class Cards:
    """What was written. missing: those of `EIGHT` of which the data sets have no run."""

    path: Path
    scenarios: tuple[str, ...]
    missing: tuple[str, ...]


def write_cards(folders: Sequence[Path], out: Path, catalogue: Catalogue, which: str = "eight") -> Cards:
    """Write the page of cards. which: "eight", those of `EIGHT` that the data sets have, or "all" of their scenarios.

    Runs are those of the gallery, at the severity "clear" where there are several. InputError as for `write_gallery`.
    """
    if out.is_dir():
        raise InputError(f"out: {str(out)!r} is a folder; allowed: a file to write, such as {out / 'cards.html'}")
    datasets = opened(folders)
    shown = exhibits(datasets)
    names = [name for name in (EIGHT if which == "eight" else sorted(shown)) if name in shown]
    if not names:
        raise InputError(f"cards: no run of {', '.join(EIGHT)} in {', '.join(map(str, folders))}; allowed: all")
    pages = pages_of(datasets, shown)
    found = [_card(_clearest(shown[name]), pages, name, catalogue) for name in names]
    page = template("trainwreck.evaluation.pages.gallery", "cards.html.jinja").render(
        cards=found, version=version("trainwreck"), palette=Markup(asset("palette.css")), scripts=Markup(script(*THEME))
    )
    write_text(out, page)
    return Cards(out, tuple(names), tuple(name for name in EIGHT if which == "eight" and name not in names))


def lines(page: Mapping[str, Any], look_alikes: Sequence[str]) -> list[tuple[str, str]]:
    """Five lines of a scenario: what they are about, and how that section of its page begins."""
    sections = page["sections"]
    found = [(name, _beginning(sections.get(key, ""))) for name, key in SECTIONS.items()]
    alike = f"{', '.join(look_alikes)}; healthy" if look_alikes else "no look-alike of it is in the catalogue"
    return [*((name, text or "-") for name, text in found), ("Not to be taken for", alike)]


SECTIONS = {"What fails": "Failure", "Why": "Mechanism", "Look for": "Signature", "Cure": "Cure"}


def _beginning(text: str) -> str:
    """Two sentences. Of a signature those of what is checked, which are one."""
    plain = " ".join(text.split("Also seen:")[0].split()).removeprefix("Checked: ")
    return ". ".join(re.split(r"(?<=[a-z0-9)`])\. (?=[A-Z])", plain)[:2]).rstrip(".")


def _clearest(runs: Sequence[Exhibit]) -> Exhibit:
    return next((one for one in runs if one.faulty["severity"] == "clear"), runs[0])


def _card(shown: Exhibit, pages: Sequence[Mapping[str, Any]], name: str, catalogue: Catalogue) -> dict[str, Any]:
    page, row = pages[shown.place][name], shown.faulty
    traces = {"faulty": row, "twin": shown.twin, "cured": shown.cured}
    columns = {"s": "onset_step", "v": "visible_step", "p": "no_return_step"}
    steps = {key: as_step(row[column]) for key, column in columns.items()}
    if shown.cured is not None:
        steps["cure"] = as_step(shown.cured["cure_step"])
    severity = f", {row['severity']}" if row["severity"] else ""
    story = Story(
        f"{name}{severity}, seed {row['seed']}",
        {role: shown.dataset.trace(one["run_id"]) for role, one in traces.items() if one is not None},
        page["telling"],
        steps,
        called=curve_name(row["kind"]),
    )
    return {
        "id": name,
        "title": page["title"],
        "family": page["family"],
        "lines": lines(page, sorted(other for other, imitated in catalogue.imitates.items() if name in imitated)),
        "picture": png_url(draw(story), DPI),
        "steps": steps,
    }
