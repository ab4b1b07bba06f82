"""Charts in a browser: what is drawn, and that each of the reader's ways to ask does what it says."""

import re

import pytest

from trainwreck.evaluation.pages import asset, script
from trainwreck.evaluation.pages.assets import CHART, HEAT, THEME

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>charts</title><style>{style}</style>
<body style="width:700px"><button data-theme-switch>Theme</button><div id="line"></div><div id="heat"></div>
<script>{scripts}
const steps = Array.from({{length: 101}}, (_, i) => i), said = [];
const curve = steps.map((i) => i === 60 ? NaN : i === 70 ? Infinity : i === 80 ? null : i === 90 ? 0 : 5 + i / 100);
const chart = new Chart(document.getElementById("line"), {{
  label: "loss", unit: "nats", series: [{{id: "a", name: "<b>faulty</b>", ink: "faulty", steps, values: curve}},
    {{id: "b", name: "twin", ink: "twin", steps: [0, 50, 100], values: [4, 3, 2]}}],
  markers: [{{step: 20, label: "s"}}, {{step: null, label: "p"}}],
  alarms: [{{name: "zclip", steps: [10, 85]}}, {{name: "quiet", steps: []}}],
  onHover: (step) => said.push(["hover", step]), onZoom: (low, high) => said.push(["zoom", low, high]),
}});
const heat = new Heat(document.getElementById("heat"), {{label: "layers", rows: ["one", "two"], steps: [0, 10, 20],
  values: [[1, 2, NaN], [3, null, 100]], log: true}});
</script></body></html>"""


@pytest.fixture
def page(open_page, tmp_path):
    file = tmp_path / "chart.html"
    file.write_text(PAGE.format(style=asset("palette.css"), scripts=script(*THEME, *CHART, *HEAT)), encoding="utf-8")
    return open_page(file)


def line(page, series="a"):
    return page.locator(f'#line [data-series="{series}"] path.line').get_attribute("d")


def readout(page):
    return page.locator("#line .readout").inner_text()


def now(page):
    page.evaluate("chart.draw()")


def test_a_line_has_a_gap_where_there_is_no_number_and_a_mark_where_it_is_not_finite(page):
    assert line(page).count("M") == 4
    broken = page.locator('#line [data-broken="a"]')
    assert broken.locator("path").count() == 2
    page.locator("#line [data-do=log]").click()
    now(page)
    assert broken.locator("path").count() == 3  # 0 has no logarithm
    assert page.locator("#line [data-do=log]").get_attribute("aria-pressed") == "true"


def test_names_are_text_and_no_markup(page):
    page.evaluate("chart.hover(5)")
    assert "<b>faulty</b> 5.05" in readout(page)


def test_the_pointer_reads_the_nearest_step(page):
    box = page.locator("#line svg").bounding_box()
    page.mouse.move(box["x"] + 46 + (box["width"] - 58) * 0.4, box["y"] + 80)
    assert readout(page) == "step 40: <b>faulty</b> 5.4, twin 3 at 50"
    assert page.evaluate("said.at(-1)") == ["hover", 40]
    page.mouse.move(box["x"] + 100, box["y"] + box["height"] + 200)
    assert readout(page) == ""


def test_arrow_keys_move_the_step(page):
    page.locator("#line svg").focus()
    for keys, step in (("ArrowRight", 1), ("Shift+ArrowRight", 11), ("ArrowLeft", 10), ("End", 100), ("Home", 0)):
        page.keyboard.press(keys)
        assert readout(page).startswith(f"step {step}: ")
        assert page.locator("#line svg").get_attribute("aria-valuenow") == str(step)
    assert page.locator("#line svg").get_attribute("aria-valuetext") == "step 0: <b>faulty</b> 5, twin 4"


def test_dragging_zooms_and_the_button_undoes_it(page):
    whole, box = line(page), page.locator("#line svg").bounding_box()
    across = (box["width"] - 58) / 100
    page.mouse.move(box["x"] + 46 + 30 * across, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 46 + 50 * across, box["y"] + 60, steps=4)
    assert page.locator("#line .brush").count() == 1
    page.mouse.up()
    now(page)
    kind, low, high = page.evaluate("said.filter((one) => one[0] === 'zoom').at(-1)")
    assert (kind, low, high) == ("zoom", pytest.approx(30, abs=1), pytest.approx(50, abs=1))
    assert page.locator("#line .brush").count() == 0
    assert line(page) != whole
    assert page.locator('#line [data-marker="s"]').count() == 0  # it lies outside
    page.get_by_role("button", name="whole run").first.click()
    now(page)
    assert line(page) == whole
    assert page.locator('#line [data-marker="s"]').count() == 1


def test_keys_zoom_and_switch_the_axis(page):
    whole = line(page)
    page.locator("#line svg").focus()
    page.keyboard.press("+")
    now(page)
    assert line(page) != whole
    page.keyboard.press("Escape")
    now(page)
    assert line(page) == whole
    page.keyboard.press("l")
    now(page)
    assert page.locator("#line [data-do=log]").get_attribute("aria-pressed") == "true"


def test_markers_and_alarms_stand_where_they_were(page):
    assert page.locator("#line text.axis").all_text_contents() == ["step"]
    assert page.locator("#line [data-marker] text").all_text_contents() == ["onset"]
    assert page.locator("#line [data-marker]").count() == 1  # a step of null is none
    assert page.locator("#line [data-alarm] title").all_text_contents() == ["zclip: alarm at step 10, 85"]
    assert page.locator('#line [data-alarm="zclip"] path').count() == 2


def test_a_series_grows_and_its_owners_arrays_do_not(page):
    before = line(page)
    page.evaluate("chart.append('a', [101, 102], [9, 9]); chart.draw()")
    assert line(page) != before
    assert page.evaluate("steps.length") == 101
    page.evaluate("chart.hover(102)")
    assert "faulty</b> 9" in readout(page)


def test_what_is_hidden_is_neither_drawn_nor_read(page):
    page.evaluate("chart.show('b', false); chart.draw(); chart.hover(50)")
    assert page.locator('#line [data-series="b"]').count() == 0
    assert "twin" not in readout(page)
    page.evaluate("chart.show('b', true); chart.draw()")
    assert page.locator('#line [data-series="b"]').count() == 1


def test_many_points_are_thinned_to_a_few_a_pixel_and_keep_the_highest(page):
    page.evaluate(
        "chart.setSeries([{id: 'a', steps: Array.from({length: 50000}, (_, i) => i),"
        " values: Array.from({length: 50000}, (_, i) => i === 31234 ? 99 : Math.sin(i))}]); chart.draw()"
    )
    drawn = re.findall(r"[ML]([\d.]+) ([\d.]+)", line(page))
    assert 600 < len(drawn) < 4 * 700
    across, _ = min(drawn, key=lambda point: float(point[1]))
    assert float(across) == pytest.approx(46 + (700 - 58) * 31234 / 49999, abs=1.5)


def test_a_heat_map_reads_its_rows_and_names_what_is_not_finite(page):
    assert "not finite" in page.locator("#heat figcaption").inner_text()
    page.locator("#heat svg").focus()
    page.keyboard.press("End")
    assert page.locator("#heat .readout").inner_text() == "step 20: one NaN, two 100"
    page.keyboard.press("ArrowDown")
    assert page.locator("#heat .readout").inner_text() == "step 20: two 100"
    pixels = page.evaluate(
        "(() => { const { width, height } = heat.canvas;"
        " const { data } = heat.canvas.getContext('2d').getImageData(0, 0, width, height);"
        " const at = (x, y) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 4)];"
        " return [at(width - 1, 0), at(width - 1, 1), at(width >> 1, 0), at(0, 1)]; })()"
    )
    assert pixels[0][:3] == [0xFE, 0xE8, 0x38]  # the largest
    assert pixels[1][:3] == [0xE5, 0x00, 0x7D]  # NaN
    assert pixels[2][3] == 0  # a gap
    assert pixels[3][:3] == [0x00, 0x22, 0x4E]  # the least


def test_the_theme_goes_through_three(page):
    button, seen = page.locator("[data-theme-switch]"), []
    for _ in range(4):
        seen.append((button.inner_text(), page.evaluate("getComputedStyle(document.body).backgroundColor")))
        button.click()
    assert [text for text, _ in seen] == ["Theme: auto", "Theme: light", "Theme: dark", "Theme: auto"]
    assert seen[1][1] != seen[2][1]
