"""The gallery in a browser: it loads and asks for nothing, and every control does what it says."""

import numpy as np
import pytest

from trainwreck.evaluation.files import write_json
from trainwreck.evaluation.pages.gallery import write_gallery
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue

pytestmark = pytest.mark.browser


@pytest.fixture
def overview(open_page, sample_page):
    page = open_page(sample_page)
    page.until("facts !== null")
    return page


@pytest.fixture
def opened(overview):
    def show(id, page=overview):
        page.evaluate("(id) => { location.hash = id; }", id)
        page.wait_for_selector(f'#exhibit[data-drawn="{id}"]')
        return page

    return show


def settled(page):
    """After the next frame, in which charts draw what changed."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(page):
    return page.eval_on_selector_all(".card", "all => all.filter((c) => c.offsetParent).map((c) => c.dataset.id)")


def series(page, chart=0):
    page.wait_for_selector("[data-part=own] .chart")
    settled(page)
    chart = page.locator("[data-part=own] .chart").nth(chart)
    return chart.locator("[data-series]").evaluate_all("all => all.map((one) => one.dataset.series)")


def test_the_filters_leave_what_they_name(overview):
    assert len(shown(overview)) == 11
    overview.fill("#search", "mask")
    assert {"mask_missing", "mask_zeroed"} <= set(shown(overview))
    few = len(shown(overview))
    assert few < 11
    assert overview.inner_text("#count") == f"{few} shown"
    overview.fill("#search", "mask zeros multiplied")  # words of the text
    assert shown(overview) == ["mask_zeroed"]
    overview.fill("#search", "mask zzz")
    assert shown(overview) == []
    assert overview.is_visible("#none")
    overview.click("#clear-too")
    overview.until("page('count').textContent === '11 shown'")
    overview.select_option("#family", "components")
    assert set(shown(overview)) == {"output_reinitialised", "residual_bypassed"}
    assert overview.is_hidden("#unproven")
    overview.click("#clear")
    overview.until("page('count').textContent === '11 shown'")
    assert overview.is_visible("#unproven")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_a_page_has_the_setup_and_the_lines_of_the_fault(opened, theme, width):
    page = opened("gradients_not_cleared")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    rows = page.locator("table.setup tbody tr").all_inner_texts()
    assert "model.width\t64\t48" in rows
    goes, comes, stays = (page.locator(f"pre.change .{sign}").all_inner_texts() for sign in ("goes", "comes", "stays"))
    assert goes == ["- c.gradients_kept = False"]
    assert comes == ["+ c.gradients_kept = True"]
    assert len(stays) == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_card_has_a_picture_of_the_run_and_its_twin(overview):
    overview.until("document.body.dataset.drawn === 'cards'")
    paths = overview.eval_on_selector_all(
        ".card svg", "all => all.map((one) => [...one.querySelectorAll('path')].map((path) => path.getAttribute('d')))"
    )
    assert len(paths) == 2 * 11, "the loss, and the most diagnostic signal"
    assert all(len(two) == 2 for two in paths)
    assert all(path.startswith("M") and path.count("L") > 5 for two in paths for path in two)
    assert all(two[0] != two[1] for two in paths[1::2])


def test_every_card_names_its_signals_its_lines_and_its_steps(overview):
    overview.until("document.body.dataset.drawn === 'cards'")
    for card in overview.locator(".card").all():
        scenario = overview.evaluate("(id) => facts.scenarios[id]", card.get_attribute("data-id"))
        loss, second = (text.strip() for text in card.locator("figcaption").all_text_contents())
        assert loss.startswith("loss")
        telling = scenario["telling"] if scenario["telling"] != "loss" else "grad_norm"
        assert second == telling.replace("_", " ")
        key = " ".join(card.locator(".key").inner_text().split())
        assert key == f"{'look-alike' if scenario['kind'] == 'look-alike' else 'faulty'} twin steps 0 to 199"
    assert "NaN from step 75" in overview.inner_text('.card[data-id="nan_weight_spread"]')


def test_the_glossary_is_on_the_page(overview):
    overview.click(".glossary summary")
    terms = overview.locator(".glossary dt").all_inner_texts()
    assert {"twin", "look-alike", "latent", "nats", "W*", "budget"} <= set(terms)


def test_symptoms_are_shapes_and_signals(overview):
    for value in overview.eval_on_selector_all("#symptom option", "all => all.map((o) => o.value).filter(Boolean)"):
        overview.select_option("#symptom", value)
        kind, name = value.split(":")
        found = shown(overview)
        assert found
        facts = overview.evaluate("(ids) => ids.map((id) => facts.scenarios[id])", found)
        for one in facts:
            first = {signal for run in one["runs"] for signal, step in run["visible"] if step == run["v"]}
            assert name in (one["symptoms"] if kind == "shape" else first)


def test_every_scenario_opens_from_its_card_and_is_drawn(overview):
    for id in shown(overview):
        overview.click(f'.card[data-id="{id}"] a')
        overview.wait_for_selector(f'#exhibit[data-drawn="{id}"]')
        assert overview.is_hidden("#overview")
        assert "faulty" in series(overview)
        assert overview.locator("[data-part=layers] canvas").count() == 1
        assert overview.locator(".page dt").count() >= 4
        assert overview.title() == f"{id} - Trainwreck gallery"
        overview.go_back()
        overview.wait_for_selector("#overview", state="visible")


def test_the_curves_are_the_telemetry(opened, shipped):
    page = opened("corrupt_tokens")
    run = page.evaluate("facts.scenarios.corrupt_tokens.runs[0]")
    for role in ("run", "twin", "cured"):
        trace = shipped.trace(run[role])
        back = page.evaluate(
            "async (id) => { const all = await columnsOfRun(id); const one = (name) => numbersOf(all[name]).rows;"
            " return [one('loss')[0], one('grad_norm')[0], one('layer_grad_norm')]; }",
            run[role],
        )
        assert np.allclose(back[0], trace["loss"], rtol=2.0**-11)
        assert np.allclose(back[1], trace["grad_norm"], rtol=2.0**-11)
        assert np.allclose(np.array(back[2]).T, trace["layer_grad_norm"], rtol=2.0**-5.9)


def test_a_run_that_is_not_finite_has_its_marks(opened):
    page = opened("nan_weight_spread")
    assert page.locator('[data-part=own] .chart >> nth=0 >> [data-broken="faulty"] path').count() > 0


def test_twin_and_cure_go_and_come_back(opened):
    page = opened("mask_zeroed")
    assert set(series(page)) == {"faulty", "twin", "cured"}
    page.uncheck('[data-control="twin"]')
    assert [set(series(page, chart)) for chart in range(3)] == [{"faulty", "cured"}] * 3
    page.keyboard.press("c")
    assert set(series(page)) == {"faulty", "cured"}  # not while a control has the focus
    page.locator("#exhibit h2").focus()
    page.keyboard.press("c")
    assert series(page) == ["faulty"]
    assert not page.is_checked('[data-control="cured"]')
    opened("mask_missing")  # what was chosen stays
    assert series(page) == ["faulty"]
    page.keyboard.press("t")
    assert set(series(page)) == {"faulty", "twin"}


def test_clocks_are_marked(opened):
    page = opened("mask_zeroed")
    run = page.evaluate("facts.scenarios.mask_zeroed.runs[0]")
    marks = page.locator("[data-part=own] .chart >> nth=0 >> [data-marker] title").all_text_contents()
    assert [mark.split(": step ")[1] for mark in marks] == [str(run[k]) for k in ("s", "v", "cure", "p")]


def test_alarms_are_those_of_the_chosen_threshold(opened):
    page = opened("corrupt_tokens")
    alarms = page.evaluate("facts.scenarios.corrupt_tokens.runs[0].alarms")
    expected = {
        "frozen": {one["detector"]: [one["frozen"]] for one in alarms if one["frozen"] is not None},
        "default": {one["detector"]: one["default"] for one in alarms if one["default"]},
        "none": {},
    }
    assert expected["default"] != expected["frozen"] != {}
    for kind, wanted in expected.items():
        page.select_option('[data-control="alarms"]', kind)
        settled(page)
        titles = page.locator("[data-part=own] .chart >> nth=0 >> [data-alarm] title").all_text_contents()
        assert titles == [f"{name}: alarm at step {', '.join(map(str, steps))}" for name, steps in wanted.items()]


def test_the_third_chart_shows_any_signal(opened):
    page = opened("mask_zeroed")
    select = page.locator('[data-control="line"]')
    assert select.input_value() == "head_entropy"  # the most diagnostic signal
    for name in ("lr", "position_loss", "validation_loss", "layer_update_ratio"):
        select.select_option(name)
        caption = page.locator("[data-part=own] .chart >> nth=2 >> figcaption")
        assert caption.inner_text().startswith(name.replace("_", " "))
        assert "faulty" in series(page, 2)


def test_the_heat_map_shows_any_signal_of_any_run(opened):
    page = opened("mask_zeroed")
    colours = "(part) => document.querySelector(`[data-part=${part}] canvas`).toDataURL()"
    seen = {page.evaluate(colours, "layers")}
    for name in ("activation_std", "layer_grad_norm"):
        page.select_option('[data-control="layers"]', name)
        seen.add(page.evaluate(colours, "layers"))
    heads = {page.evaluate(colours, "heads")}
    for role in ("twin", "cured", "over"):
        page.select_option('[data-control="role"]', role)
        seen.add(page.evaluate(colours, "layers"))
        heads.add(page.evaluate(colours, "heads"))
    assert len(seen) == 6
    assert len(heads) == 4
    assert "less the twin's" in page.locator("[data-part=heads] figcaption").inner_text()


def test_the_pointer_in_one_chart_moves_all(opened):
    page = opened("mask_zeroed")
    note = page.locator("[data-part=profile] .note")
    assert note.inner_text() == "mean of the 20 steps up to 199"
    before = page.locator("[data-part=profile] path.line >> nth=0").get_attribute("d")
    page.locator("[data-part=own] svg >> nth=1").focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowRight")
    settled(page)
    readouts = page.locator("[data-part=own] .readout, [data-part=layers] .readout, [data-part=heads] .readout")
    assert all(text.startswith("step 50") for text in readouts.all_inner_texts())
    assert readouts.count() == 5
    assert note.inner_text() == "mean of the 20 steps up to 50"
    assert page.locator("[data-part=profile] path.line >> nth=0").get_attribute("d") != before


def test_zoom_in_one_chart_zooms_all(opened):
    page = opened("mask_zeroed")
    page.locator("[data-part=own] [data-do=in] >> nth=0").click()
    settled(page)
    ends = "all => all.map((svg) => [svg.getAttribute('aria-valuemin'), svg.getAttribute('aria-valuemax')].join())"
    charts = "[data-part=own] svg, [data-part=layers] svg, [data-part=heads] svg"
    assert page.eval_on_selector_all(charts, ends) == ["50,149"] * 5
    page.locator("[data-part=heads] [data-do=reset]").click()
    settled(page)
    assert page.eval_on_selector_all(charts, ends) == ["0,199"] * 5


def test_loss_by_position_or_by_age(opened):
    page = opened("mask_zeroed")
    caption = page.locator("[data-part=profile] figcaption")
    assert "by position in the row" in caption.inner_text()
    page.select_option('[data-control="profile"]', "age_loss")
    assert "since the document began" in caption.inner_text()
    assert "3-4" in page.locator("[data-part=profile] svg").inner_html()


def test_a_look_alike_stands_beside_what_it_imitates(opened):
    page = opened("benign_single_spike")
    beside = page.locator("[data-part=beside]")
    beside.wait_for()
    assert beside.locator("h3").inner_text().startswith("corrupt_tokens")
    assert beside.locator(".chart").count() == 3
    page.select_option('[data-control="beside"]', "")
    assert beside.count() == 0
    page.select_option('[data-control="beside"]', "corrupt_tokens")
    beside.wait_for()


def test_keys_go_from_one_to_the_next(overview):
    order = shown(overview)
    overview.keyboard.press("n")
    overview.wait_for_selector(f'#exhibit[data-drawn="{order[0]}"]')
    overview.keyboard.press("n")
    overview.wait_for_selector(f'#exhibit[data-drawn="{order[1]}"]')
    overview.keyboard.press("p")
    overview.wait_for_selector(f'#exhibit[data-drawn="{order[0]}"]')
    overview.keyboard.press("o")
    overview.wait_for_selector("#overview", state="visible")
    assert overview.evaluate("document.activeElement.closest('.card').dataset.id") == order[0]
    overview.keyboard.press("?")
    assert overview.is_visible("#help")
    overview.keyboard.press("Escape")
    overview.keyboard.press("/")
    overview.until("document.activeElement.id === 'search'")
    overview.keyboard.type("nto")  # letters, not keys
    assert overview.input_value("#search") == "nto"


def test_the_severity_can_be_chosen(open_page, make_run, make_trace, write_data_set, tmp_path):
    rows, traces = [], []
    for seed, severity in enumerate(("subtle", "clear", "severe")):
        name, label = (
            f"f{seed}",
            {"scenario": "high_lr", "cause": "high_lr", "severity": severity, "seed": seed, "last_step": 29},
        )
        rows += [make_run(name, **label, kind="failing", onset_step=5 + seed, twin_id="t")]
        traces.append(make_trace(name, steps=30, loss=np.full(30, 2.0 + seed)))
    rows.append(make_run("t", last_step=29))
    traces.append(make_trace("t", steps=30))
    data = write_data_set(tmp_path / "data", rows, traces)
    evil = "<img src=x onerror='evil = 1'>"
    page = {"title": evil, "family": "data", "telling": "loss", "sections": {"Failure": evil}}
    write_json(data.path / "catalogue.json", {"high_lr": page})
    write_gallery([data.path], tmp_path / "g.html", Catalogue(), detectors=["nonfinite_loss"])
    page = open_page(tmp_path / "g.html")
    page.click('.card[data-id="high_lr"] a')
    page.wait_for_selector('#exhibit[data-drawn="high_lr"]')
    assert page.locator(".tag >> nth=0").inner_text() == "clear"
    for place, severity in enumerate(("subtle", "severe", "clear")):
        page.select_option('[data-control="severity"]', severity)
        page.until("(s) => document.querySelector('.tag').textContent === s", severity)
        page.wait_for_selector('#exhibit[data-drawn="high_lr"]')
        onset = page.locator("[data-part=own] .chart >> nth=0 >> [data-marker=s] title").text_content()
        assert onset.endswith(f"step {(5, 7, 6)[place]}")
    assert page.evaluate("typeof evil") == "undefined"
    assert page.locator("#exhibit img").count() == 0


def test_a_signal_that_is_known_at_evaluated_steps_is_a_line(open_page, make_run, make_trace, write_data_set, tmp_path):
    evaluated = np.where(np.arange(60) % 20 == 19, np.arange(60.0), np.nan)
    facts = {"scenario": "kv_cache_stale", "cause": "kv_cache_stale", "kind": "failing", "onset_step": 5}
    rows = [make_run("f", **facts, last_step=59, twin_id="t"), make_run("t", last_step=59)]
    traces = [make_trace(name, steps=60, cache_gap=evaluated) for name in ("f", "t")]
    data = write_data_set(tmp_path / "data", rows, traces)
    page = {"title": "", "family": "decoding", "telling": "cache_gap", "sections": {"Failure": "fails"}}
    write_json(data.path / "catalogue.json", {"kv_cache_stale": page})
    write_gallery([data.path], tmp_path / "g.html", Catalogue(), detectors=["nonfinite_loss"])
    page = open_page(tmp_path / "g.html")
    page.wait_for_selector(".card svg path")
    paths = page.eval_on_selector_all(".card svg path", "all => all.map((one) => one.getAttribute('d'))")
    assert [path.count("L") for path in paths if path.startswith("M")][-2:] == [2, 2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page, sample_page, opened, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(sample_page, color_scheme=scheme)
    page.until("facts !== null")

    def serious():
        found = Axe().run(page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]

    page.click("footer summary")
    assert serious() == []
    opened("benign_single_spike", page)
    page.locator("[data-part=beside] .chart >> nth=2").wait_for()
    assert serious() == []
    page.keyboard.press("?")
    assert serious() == []


def test_a_phone_needs_no_scrolling_sideways(open_page, sample_page, opened):
    page = open_page(sample_page, phone=True)
    page.until("facts !== null")
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) == page.viewport_size["width"]
    opened("benign_single_spike", page)
    page.locator("[data-part=beside] .chart >> nth=2").wait_for()
    assert page.evaluate(wide) == page.viewport_size["width"]
    box = page.locator("[data-part=own] svg >> nth=0").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 60)
    assert page.locator("[data-part=own] .readout >> nth=0").inner_text().startswith("step ")


def test_on_paper_there_are_curves_and_no_controls(opened):
    page = opened("mask_zeroed")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".controls").is_hidden()
    assert page.locator("[data-part=own] [data-do=log] >> nth=0").is_hidden()
    assert page.locator("[data-part=own] path.line >> nth=0").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"  # paper's own
    assert len(page.pdf()) > 20_000


def test_the_theme_stays(overview, opened):
    button = overview.locator("[data-theme-switch]")
    button.click()
    button.click()
    assert button.inner_text() == "Theme: dark"
    assert overview.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
    opened("mask_zeroed")
    overview.reload()
    assert overview.locator("[data-theme-switch]").inner_text() == "Theme: dark"


@pytest.mark.parametrize("id", ["", "gradients_not_cleared", "benign_single_spike"])
def test_it_looks_right_at_every_width_and_on_paper(sample_page, looks_right, id):
    drawn = f"document.querySelector('#exhibit[data-drawn=\"{id}\"] .heat')" if id else "document.body.dataset.drawn"
    looks_right(f"{sample_page.as_uri()}#{id}", ready=f"Boolean({drawn})")


def test_charts_are_as_wide_as_the_paper_while_they_are_printed(opened):
    page = opened("gradients_not_cleared")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_selector("[data-part=layers] canvas")
    settled(page)
    widths = (
        "[...document.querySelectorAll('.chart svg')].map((one) => Number(one.getAttribute('viewBox').split(' ')[2]))"
    )
    before = page.evaluate(widths)
    assert max(before) < 640, "half of the window"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(widths) == [680] * len(before), "180 mm"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(widths) == before
