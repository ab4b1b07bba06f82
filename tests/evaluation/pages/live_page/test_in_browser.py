"""The page of runs under way in a browser: curves grow, a reload loses nothing, and the end is shown."""

import re

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.live_page import serve

pytestmark = pytest.mark.browser


@pytest.fixture
def served(make_show, traces, cut):
    """A page under way, and what trains: train(first, stop) shows these steps of every run."""

    def train(first, stop):
        for role, trace in traces.items():
            if first < len(trace):
                live.block(role, cut(trace, first, stop))
        live.trained = stop

    with serve(make_show()) as live:
        live.train = train
        yield live
        live.stop("interrupted")


def caught_up(page, live):
    """After all events are drawn."""
    page.until("(n) => Number(document.body.dataset.place) === n", len(live.stream))
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def status(page):
    return page.inner_text("[data-part=state]"), page.inner_text("[data-part=step]")


def ends(page, chart=0):
    """Where the line of each run ends, in units of the picture."""
    paths = page.locator(".chart:not(.heat)").nth(chart).locator("[data-series]")
    found = paths.evaluate_all("all => all.map((g) => [g.dataset.series, g.querySelector('path').getAttribute('d')])")
    return {role: float(re.split("[ML]", path)[-1].split()[0]) for role, path in found if path}


def test_curves_grow_and_the_end_is_told(open_page, served, facts):
    page = open_page(served.address)
    assert status(page) == ("waiting for the first steps", "")
    assert ends(page) == {}
    assert page.locator("[data-marker] title").all_text_contents()[:2] == ["onset: step 20", "cure: step 30"]
    served.train(0, 20)
    caught_up(page, served)
    assert status(page) == ("training", "step 20 of 60")
    first = ends(page)
    assert set(first) == {"faulty", "twin", "cured"}
    served.train(20, 40)
    caught_up(page, served)
    assert status(page) == ("training", "step 40 of 60")
    assert page.locator("progress").evaluate("(bar) => bar.value") == 40
    assert all(end > first[role] for role, end in ends(page).items())
    assert page.locator('[data-broken="faulty"]').count() > 0
    assert page.is_hidden("[data-part=result]")
    served.train(40, 60)
    served.finish(facts)
    caught_up(page, served)
    assert status(page) == ("finished", "60 steps; the page stays as it is")
    assert page.title() == "finished: evil, seed 3 - Trainwreck"
    assert "The signature holds" in page.inner_text("[data-part=result] .verdict")
    cells = page.locator("[data-part=result] tbody tr").all_inner_texts()
    assert [re.split(r"\s{1,}", row.strip(), maxsplit=2) for row in cells] == [
        ["faulty", "40", "not finite\t-"],
        ["twin", "60", "2.000"],
        ["cured", "60", "2.250\t+0.250"],
    ]
    assert ends(page)["twin"] > ends(page)["faulty"]


def test_a_late_page_and_a_reload_show_it_all(open_page, served, facts):
    early = open_page(served.address)
    for first in range(0, 60, 10):
        served.train(first, first + 10)
    caught_up(early, served)
    late = open_page(served.address)
    caught_up(late, served)
    assert ends(late) == ends(early)
    served.finish(facts)
    early.reload()
    for page in (early, late):
        caught_up(page, served)
        assert status(page)[0] == "finished"
    assert ends(late) == ends(early)


def test_a_page_that_is_closed_stops_nothing(open_page, served):
    closed, other = open_page(served.address), open_page(served.address)
    served.train(0, 20)
    caught_up(other, served)
    closed.close()
    served.train(20, 40)
    caught_up(other, served)
    assert status(other) == ("training", "step 40 of 60")


def test_a_page_hears_of_the_end_before_the_server_is_gone(open_page, make_show, traces, cut):
    pages = []

    def fail():
        with serve(make_show()) as live:
            pages.append(open_page(live.address))
            live.block("twin", cut(traces["twin"], 0, 20))
            caught_up(pages[0], live)
            raise InputError("it can't go on")

    with pytest.raises(InputError):
        fail()
    pages[0].until("document.querySelector('[data-part=progress]').dataset.state === 'failed'")
    assert status(pages[0]) == ("failed", "it can't go on")


def test_an_interrupted_page_says_how_far_it_came(open_page, served):
    page = open_page(served.address)
    served.train(0, 20)
    served.stop("interrupted")
    caught_up(page, served)
    assert status(page) == ("interrupted", "after step 20 of 60")
    assert page.is_hidden("[data-part=result]")


def test_a_page_of_another_run_at_the_same_address_starts_anew(open_page, served):
    page = open_page(served.address)
    page.evaluate("facts.stream = 'of a run before'")
    with page.expect_navigation():
        served.train(0, 20)
    caught_up(page, served)
    assert page.evaluate("facts.stream") == served.stream.id
    assert status(page) == ("training", "step 20 of 60")


def test_the_layers_of_each_run(open_page, served):
    page = open_page(served.address)
    assert page.locator(".heat").count() == 0
    served.train(0, 20)
    caught_up(page, served)
    colours = "document.querySelector('.heat canvas').toDataURL()"
    seen = {page.evaluate(colours)}
    served.train(20, 40)
    caught_up(page, served)
    seen.add(page.evaluate(colours))
    names = page.locator(".heat svg text").all_text_contents()
    assert {"embedding", "layer 1", "head"} <= set(names)
    page.locator("[data-part=heat] select").select_option("cured")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seen.add(page.evaluate(colours))
    assert len(seen) == 3


def test_runs_go_and_come_back_and_charts_are_linked(open_page, served):
    page = open_page(served.address)
    served.train(0, 40)
    caught_up(page, served)
    page.uncheck('[data-role="twin"]')
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert all(set(ends(page, chart)) == {"faulty", "cured"} for chart in range(3))
    page.locator(".chart svg >> nth=0").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    readouts = page.locator(".readout").all_inner_texts()
    assert len(readouts) == 4
    assert all(text.startswith("step 10") for text in readouts)
    page.locator("[data-do=in] >> nth=0").click()
    served.train(40, 60)  # the reader's part stays
    caught_up(page, served)
    ranges = "all => all.map((svg) => [svg.getAttribute('aria-valuemin'), svg.getAttribute('aria-valuemax')].join())"
    assert len(set(page.eval_on_selector_all(".chart svg", ranges))) == 1
    assert page.locator("[data-do=reset]:visible").count() == 4


def test_a_log_axis_that_the_reader_left_stays_left(open_page, make_show, make_trace, cut):
    trace = make_trace("t", seed=1, steps=60, loss=[0.01 * 1.3**step for step in range(60)])
    with serve(make_show()) as live:
        page = open_page(live.address)
        button = page.locator("[data-do=log] >> nth=0")
        live.block("twin", cut(trace, 0, 20))
        caught_up(page, live)
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        live.block("twin", cut(trace, 20, 60))
        caught_up(page, live)
        assert button.get_attribute("aria-pressed") == "false"
        live.stop("interrupted")
        caught_up(page, live)


def test_text_is_no_markup(open_page, served):
    page = open_page(served.address)
    page.click("summary")
    assert page.evaluate("typeof evil") == "undefined"
    assert page.locator("img").count() == 0
    assert page.locator("dt:visible").all_inner_texts() == ["Failure", "What to look for", "Cure", "Mechanism"]


def test_the_theme_is_switched(open_page, served):
    page = open_page(served.address, color_scheme="light")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    page.click("[data-theme-switch]")
    page.click("[data-theme-switch]")
    assert page.inner_text("[data-theme-switch]") == "Theme: dark"
    assert page.evaluate(back) != light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page, served, facts, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(served.address, color_scheme=scheme)

    def serious():
        found = Axe().run(page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]

    assert serious() == []
    served.train(0, 40)
    caught_up(page, served)
    page.click("summary")
    assert serious() == []
    served.finish(facts)
    caught_up(page, served)
    assert serious() == []


def test_a_phone_needs_no_scrolling_sideways(open_page, served, facts):
    page = open_page(served.address, phone=True)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == page.viewport_size["width"]
    served.train(0, 40)
    served.finish(facts)
    caught_up(page, served)
    assert page.evaluate(wide) == page.viewport_size["width"]


def test_it_looks_right_at_every_width_and_on_paper(looks_right, served, facts):
    served.train(0, 60)
    served.finish(facts)
    looks_right(served.address, ready=f"Number(document.body.dataset.place) === {len(served.stream)}")
