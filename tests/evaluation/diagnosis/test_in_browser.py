"""The page of a diagnosis in a browser: its curves are drawn, it fits a phone, and axe finds nothing serious."""

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.diagnosis.diagnosis import diagnose
from trainwreck.evaluation.diagnosis.page import write_page
from trainwreck.scenarios.spec.pages import page as catalogue_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page about a run of the sample, which has labelled runs that are alike."""
    data = load("sample")
    runs = data.runs
    run_id = runs.index[(runs["scenario"] == "corrupt_tokens") & (runs["kind"] == "failing")][0]
    found = diagnose(data.trace(run_id), "mine.csv", catalogue_page, "common")
    return found, write_page(found, tmp_path_factory.mktemp("page") / "answer.html")


def test_curves_and_labelled_runs_are_drawn(open_page, written):
    found, file = written
    page = open_page(file)
    assert page.locator("[data-part=own] .chart").count() == 4
    assert page.locator("[data-near] .chart").count() == len(found.near) > 1
    near = page.locator("[data-near='0'] [data-series]").evaluate_all("all => all.map((g) => g.dataset.series)")
    assert set(near) == {"twin", "cured", "faulty", "yours"}
    marks = page.locator("[data-marker] title").all_text_contents()
    assert set(marks) == {f"wrong since: step {found.since}"}
    page.locator("summary").nth(1).click()
    assert page.locator("details").nth(1).evaluate("(one) => one.open")


def test_it_fits_a_phone(open_page, written):
    page = open_page(written[1], phone=True)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page, written, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(written[1], color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    results = Axe().run(page)
    serious = [found for found in results.response["violations"] if found["impact"] in ("serious", "critical")]
    assert serious == []


def test_it_looks_right_at_every_width_and_on_paper(looks_right, written):
    looks_right(written[1], ready="document.querySelectorAll('[data-near] .chart').length > 1")
