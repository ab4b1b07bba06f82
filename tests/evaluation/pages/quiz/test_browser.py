"""The page in a browser: nothing in the console, no request, and every control does what it says."""

import hashlib
import json
import re

import pytest

from trainwreck.evaluation.pages.quiz.answers import check_sheet, read_sheet
from trainwreck.evaluation.pages.quiz.classroom.scores import results
from trainwreck.evaluation.pages.quiz.page import write_page

pytestmark = pytest.mark.browser
TIMES = "\N{MULTIPLICATION SIGN}"
TITLES = {"high_lr": "The learning rate is too high.", "mask_missing": "No causal mask."}


@pytest.fixture(scope="module")
def files(shipped, quiz, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, sealed in (("open", False), ("sealed", True)):
        write_page(folder / f"{name}.html", shipped, quiz, TITLES, sealed=sealed)
    write_page(folder / "beginner.html", shipped, quiz, TITLES, beginner=True)
    return folder


@pytest.fixture
def begun(open_page, files):
    """The page after Begin; of a name."""

    def begin(name="open", **options):
        page = open_page(files / f"{name}.html", **options)
        page.wait_for_selector("body[data-ready]")
        page.fill("input[name=player]", "Ada  L.")
        page.click("[data-start]")
        page.wait_for_selector("[data-part=run]:not([hidden])")
        return page

    return begin


def control(page, name):
    page.locator(f"[data-control={name}]:visible").first.click()


def step(page):
    return int(re.search(r"\d+", page.inner_text("[data-part=step]"))[0])


def finish(page, quiz, answer):
    """Play every run by `answer(number) -> (rows to skip, names to type)`, None for healthy."""
    for number in range(1, len(quiz.runs) + 1):
        chosen = answer(number)
        if chosen is None:
            control(page, "healthy")
        else:
            for _ in range(chosen[0]):
                control(page, "skip")
            control(page, "stop")
            for name in chosen[1]:
                page.fill("[data-search]", name)
                page.press("[data-search]", "Enter")
            control(page, "answer")
        page.wait_for_selector("[data-part=told]:not([hidden]) [data-verdict]")
        yield page
        control(page, "next")
        page.wait_for_selector("[data-part=told]", state="hidden")


def exported(page, path):
    with page.expect_download() as download:
        control(page, "export")
    download.value.save_as(path)
    return read_sheet(path)


def test_the_scores_in_the_page_are_those_of_the_class(begun, quiz, tmp_path):
    """Shown beside Python's own, for the player and every detector; and the export passes every check."""
    page = begun()
    answers = {
        1: (12, ["mask"]),
        3: (9, []),
        4: (11, ["high", "data"]),
        8: (10, ["mask missing"]),
        9: (11, ["corrupt"]),
    }
    for _ in finish(page, quiz, answers.get):
        pass
    cells = page.eval_on_selector_all(
        "[data-standing] tbody tr", "rows => rows.map(r => [...r.children].map(c => c.textContent))"
    )
    sheet = exported(page, tmp_path / "ada.json")
    check_sheet(sheet, quiz)
    assert sheet.player == "Ada L."
    assert sheet.answers[0].step == 120
    assert sheet.answers[1].said == "healthy"
    expected = {
        row["name"]: [
            *(f"{100 * row[name] + 1e-9:.0f} %" for name in ("recall", "stopped", "stopped_look_alike")),
            f"{row['skill']:.2f}", *(f"{100 * row[name] + 1e-9:.0f} %" for name in ("top1", "family")),
        ]
        for row in results([sheet], {quiz.recipe.id: quiz}).rows
    }  # fmt: skip
    shown = {row[0]: [*row[1:4], row[5].replace("-0.00", "0.00"), *row[6:8]] for row in cells}
    assert shown == expected
    assert len(set(map(tuple, shown.values()))) > 2


def test_rows_are_revealed_by_step_skip_and_play_and_the_end_is_not_seen(begun, quiz):
    page = begun()
    assert step(page) == 0
    control(page, "step")
    control(page, "skip")
    assert step(page) == 11
    axis = page.eval_on_selector_all(
        ".chart text[text-anchor=middle]", "all => Math.max(...all.map(t => Number(t.textContent)))"
    )
    assert axis < int(quiz.runs.iloc[0]["last_step"])
    assert page.evaluate("panels.every((p) => p.chart.series[0].steps.every((s) => s <= 11))")
    page.click("[data-speed='60']")
    control(page, "play")
    assert page.inner_text("[data-control=play]") == "Pause"
    page.until("state.seen > 20")
    control(page, "play")
    at = step(page)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert step(page) == at
    assert page.inner_text("[data-control=play]") == "Play"
    for _ in range(30):
        control(page, "skip")
    assert step(page) == int(quiz.runs.iloc[0]["last_step"])
    assert "The run has ended here" in page.inner_text("[data-part=said]")


def test_keys_do_what_the_buttons_do(begun):
    page = begun()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert step(page) == 11
    page.keyboard.press("2")
    assert page.get_attribute("[data-speed='5']", "aria-pressed") == "true"
    page.keyboard.press(" ")
    assert page.inner_text("[data-control=play]") == "Pause"
    page.keyboard.press(" ")
    assert page.inner_text("[data-control=play]") == "Play"
    page.keyboard.press("s")
    assert page.is_visible("[data-part=choice]")
    page.keyboard.type("mask_zeroed")  # into the search, where s, h and n are letters
    page.keyboard.press("Enter")
    assert page.inner_text("[data-chosen]") == f"1. mask_zeroed {TIMES}"
    control(page, "back")
    assert not page.is_visible("[data-part=choice]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("h")
    page.wait_for_selector("[data-verdict]")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("n")
    page.wait_for_selector("[data-part=told]", state="hidden")
    assert page.inner_text("[data-part=progress]") == "run 2 of 12"


def test_up_to_three_names_and_any_can_be_taken_back(begun):
    page = begun()
    control(page, "stop")
    for name in ("high_lr", "data", "mask_missing"):
        page.click(f"[data-list] [data-name='{name}']")
    assert page.inner_text("[data-chosen]").split(f" {TIMES}") == ["1. high_lr", " 2. data", " 3. mask_missing", ""]
    assert page.is_disabled("[data-list] [data-name=no_warmup]")
    page.click("[data-chosen] [data-name=data]")
    assert page.inner_text("[data-chosen]") == f"1. high_lr {TIMES} 2. mask_missing {TIMES}"
    page.fill("[data-search]", "learning rate")
    assert page.eval_on_selector_all("[data-list] .cause", "all => all.map(b => b.dataset.name)") == ["high_lr"]
    page.fill("[data-search]", "zzz")
    assert page.inner_text("[data-list]") == "No cause has these words."


def test_signals_can_be_changed_and_the_theme(begun):
    page = begun()
    page.select_option("[data-signal='1']", "lr")
    assert page.evaluate("panels[1].chart.label") == "lr"
    assert page.evaluate("panels[1].chart.series[0].values.length") == 1
    page.click("[data-theme-switch]")
    page.click("[data-theme-switch]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_after_the_answer_stand_label_clocks_page_twin_and_detectors(begun, quiz):
    page = begun()
    for number, _ in enumerate(finish(page, quiz, lambda number: (1, []))):
        row = quiz.runs.iloc[number]
        truth = page.inner_text("[data-part=telling]")
        if row["kind"] == "failing":
            assert row["cause"] in page.inner_text("[data-truth]")
            assert f"The fault began at {row['onset_step']:.0f}" in truth
            marks = page.eval_on_selector_all(
                "[data-marker]", "all => [...new Set(all.map(m => m.dataset.marker))].sort()"
            )
            assert marks == ["p", "s", "v", "you"]
            assert {"Failure", "Signature", "Cure"} <= set(truth.splitlines())
        else:
            assert "A false alarm at step 10" in truth
        has_twin = page.evaluate("panels[0].chart.series.some((one) => one.id === 'twin')")
        assert has_twin == bool(row["twin_id"])
        result = quiz.said["grad_norm_zscore"][row["run_id"]]
        cells = page.eval_on_selector_all("[data-detectors] tbody tr", "all => all.map(r => r.innerText.split('\\t'))")
        alarms = {name: int(at) for name, at, *_ in cells}
        assert alarms.get("grad_norm_zscore") == result.first
        assert ("grad_norm_zscore" in page.inner_text("[data-silent]")) == (result.first is None)


def points(page):
    """Of the stop, and for the cause: what the page says of the last answer."""
    stop, cause = re.match(
        r"([+-]?\d+) points(?:, and ([+-]\d+) for the cause)?", page.inner_text("[data-points]")
    ).groups()
    return int(stop), int(cause or 0)


def test_a_beginner_has_four_causes_gains_by_the_right_one_and_loses_by_a_wrong_one(begun, quiz, tmp_path):
    """Right on every second failing run; the tally is the sum. A wrong guess is shown beside the run."""
    page, total, failing = begun("beginner"), 0, 0
    assert "choose its cause from four" in page.content()
    for number in range(1, len(quiz.runs) + 1):
        row = quiz.runs.iloc[number - 1]
        fails = row["kind"] == "failing"
        for _ in range(int(row["visible_step"]) // 10 + 1 if fails else 3):
            control(page, "skip")
        control(page, "stop")
        assert page.is_hidden("[data-search]")
        names = page.eval_on_selector_all("[data-list] button", "all => all.map((one) => one.dataset.name)")
        assert len(set(names)) == 4
        assert not fails or row["cause"] in names
        failing += fails
        right = fails and failing % 2 == 1
        wrong = next(name for name in names if name != row["cause"] and quiz.families[name] != row["family"])
        name = row["cause"] if right else wrong
        page.click(f"[data-list] [data-name='{names[0]}']")
        page.click(f"[data-list] [data-name='{name}']")  # takes the other's place, or itself back
        if page.inner_text("[data-chosen]") == "nothing named yet":
            page.click(f"[data-list] [data-name='{name}']")
        assert page.inner_text("[data-chosen]") == f"1. {name} {TIMES}"
        control(page, "answer")
        page.wait_for_selector("[data-part=told]:not([hidden]) [data-verdict]")
        stop, cause = points(page)
        assert cause == ((5 if right else -5) if fails else 0)
        assert fails or stop == -5
        total += stop + cause
        beside = page.locator("[data-guess]")
        if right:
            assert beside.count() == 0
        else:
            assert beside.get_attribute("data-guess") == name
            charts = beside.locator("section").nth(1).locator(".chart")
            assert charts.count() == 2
            assert charts.locator('[data-series="guess"] path.line').count() == 2
        assert abs(int(re.search(r"([+-]?\d+) points$", page.inner_text("[data-part=tally]"))[1]) - total) <= 12
        control(page, "next")
        page.wait_for_selector("[data-part=told]", state="hidden")
    sheet = exported(page, tmp_path / "beginner.json")
    check_sheet(sheet, quiz)
    assert all(len(answer.named) == 1 for answer in sheet.answers)


def test_a_guess_is_shown_beside_the_run(begun, quiz):
    page, place = begun(), list(quiz.runs["kind"]).index("failing")
    wrong = next(name for name in ("corrupt_tokens", "mask_missing") if name != quiz.runs.iloc[place]["cause"])
    for number, _ in enumerate(finish(page, quiz, lambda number: (11, [wrong]) if number == place + 1 else None)):
        beside = page.locator("[data-guess]")
        if number < place:
            assert beside.count() == 0
        if number == place:
            assert page.locator("[data-guess] section").count() == 2
            assert beside.get_attribute("data-guess") == wrong
            assert "Your guess would have looked like this" in beside.inner_text()
            break


def test_a_reload_keeps_answers_and_place_and_begin_anew_forgets_them(begun, quiz, tmp_path):
    page = begun()
    for _ in zip(range(2), finish(page, quiz, lambda number: None), strict=False):
        pass
    control(page, "next")
    control(page, "skip")
    control(page, "skip")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.inner_text("[data-part=progress]") == "run 3 of 12"
    assert step(page) == 20
    sheet = exported(page, tmp_path / "half.json")
    check_sheet(sheet, quiz)
    assert [one.said for one in sheet.answers] == ["healthy"] * 2 + ["nothing"] * 10
    for _ in finish_rest(page, quiz, 3):
        pass
    page.on("dialog", lambda dialog: dialog.accept())
    control(page, "fresh")
    page.wait_for_selector("[data-part=start]:not([hidden])")
    assert page.is_disabled("[data-control=export]")


def finish_rest(page, quiz, first):
    for _ in range(first, len(quiz.runs) + 1):
        control(page, "healthy")
        page.wait_for_selector("[data-part=told]:not([hidden]) [data-verdict]")
        yield page
        control(page, "next")
        page.wait_for_selector("[data-part=told]", state="hidden")


def test_a_sealed_page_tells_nothing_and_exports(begun, quiz, tmp_path):
    page = begun("sealed", phone=True)
    for _ in finish(page, quiz, lambda number: (2, ["data"]) if number % 2 else None):
        assert page.inner_text("[data-verdict]").startswith("Noted.")
        assert page.query_selector("[data-detectors]") is None
        assert page.inner_text("[data-part=tally]") == ""
    sheet = exported(page, tmp_path / "sealed.json")
    check_sheet(sheet, quiz)
    assert sheet.answers[0].named == ("data",)


def test_it_fits_a_phone(begun):
    page = begun(viewport={"width": 360, "height": 740})
    for shown in ("run", "choice"):
        if shown == "choice":
            control(page, "stop")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("text", ["", "abc", "x" * 55, "x" * 56, "x" * 64, "é" * 4000])
def test_the_hash_is_sha_256(text, begun):
    page = begun()
    assert page.evaluate("(text) => hex(sha256(bytesOf(text)))", text) == hashlib.sha256(text.encode()).hexdigest()


def test_the_export_is_the_schema_s(begun, tmp_path):
    page = begun()
    control(page, "healthy")
    page.wait_for_selector("[data-verdict]")
    exported(page, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert content["answers"][1] == {"run": 2, "said": "nothing", "step": None, "named": [], "seconds": 0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(begun, quiz, scheme, tmp_path):
    from axe_playwright_python.sync_playwright import Axe

    page = begun(color_scheme=scheme, bypass_csp=True)  # axe is put into the page as a string

    def serious():
        found = Axe().run(page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")]

    assert serious() == []
    control(page, "stop")
    assert serious() == []
    control(page, "answer")
    page.wait_for_selector("[data-verdict]")
    assert serious() == []
    control(page, "next")
    for _ in finish_rest(page, quiz, 2):
        pass
    assert page.is_visible("[data-standing]")
    assert serious() == []
