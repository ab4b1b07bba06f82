"""Functions that write pages for a browser."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainwreck.evaluation.constants import DEFAULT_PROFILE
from trainwreck.evaluation.dataset.sample import folder_of
from trainwreck.evaluation.errors import InputError

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset.dataset import DataSet as AnyDataSet
    from trainwreck.evaluation.pages.gallery.build import Gallery

    Data = AnyDataSet | str | Path


def report(data: "Data", out: str | Path | None = None, *, workers: int = 1) -> Path:
    """Write one HTML file: every scenario's picture, the labels, the leaderboard.

    out: DIR/report.html by default, sample.html for the sample. workers: processes for the pictures.
    """
    from trainwreck.evaluation.dataset.sample import SAMPLE, is_sample
    from trainwreck.evaluation.pages.report import write_report

    folder = folder_of(data)
    page = Path(f"{SAMPLE}.html") if is_sample(folder) else folder / "report.html"
    return write_report(folder, page if out is None else Path(out), workers=workers)


def gallery(
    *data: "Data",
    out: str | Path = Path("gallery.html"),
    detectors: Sequence[str] = (),
    alarms: Sequence[str | Path] = (),
    workers: int = 1,
) -> "Gallery":
    """Write one page with every scenario's curves, text and alarms; `.path`, `.scenarios`, `.runs` and `.bytes` tell.

    detectors: whose alarms are marked, in place of the usual eight. alarms: stored ones, instead of a replay.
    """
    from trainwreck.evaluation.pages.gallery import write_gallery
    from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
    from trainwreck.evaluation.pages.gallery.marks import DETECTORS
    from trainwreck.scenarios.views.symptoms import catalogue_facts

    if detectors and alarms:
        raise InputError("detectors: not allowed beside alarms, which replay nothing; allowed: one of them")
    return write_gallery(
        [folder_of(one) for one in data],
        Path(out),
        Catalogue(**catalogue_facts()),
        detectors=detectors or DETECTORS,
        alarms=[Path(path) for path in alarms],
        workers=workers,
    )


def quiz(
    data: "Data" = "sample",
    out: str | Path = Path("quiz.html"),
    *,
    runs: int = 12,
    seed: int = 7,
    profile: str = DEFAULT_PROFILE,
    families: Sequence[str] = (),
    detectors: Sequence[str] = (),
    beginner: bool = False,
    sealed: bool = False,
) -> Path:
    """Write a page on which runs are revealed step by step, and the player says stop and names the cause.

    families: failing runs of these only. detectors: beside the player, in place of the built-in ones. beginner: four
    causes to choose from at each stop. sealed: keep the answers in OUT.key.json beside the page.
    """
    from trainwreck.evaluation.dataset.dataset import load, telemetry_digest
    from trainwreck.evaluation.pages.quiz.key import write_key
    from trainwreck.evaluation.pages.quiz.page import write_page
    from trainwreck.evaluation.pages.quiz.quiz import make
    from trainwreck.evaluation.pages.quiz.recipe import Recipe
    from trainwreck.evaluation.replay.unlabelled import refuse_imported
    from trainwreck.scenarios.spec.pages import causes

    dataset, page = load(data), Path(out)
    refuse_imported(dataset, "asked about")
    recipe = Recipe(telemetry_digest(dataset), seed, runs, profile, tuple(sorted(set(families))))
    families_of, titles = causes(dataset, whole_catalogue=True)
    made = make(dataset, recipe, families_of, list(detectors) or None)
    if sealed:
        write_key(page.with_suffix(".key.json"), made)
    write_page(page, dataset, made, titles, sealed=sealed, beginner=beginner)
    return page
