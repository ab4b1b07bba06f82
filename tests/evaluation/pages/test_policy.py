"""Every page has a policy that allows its own scripts and styles by their hashes, and no other code."""

import base64
import hashlib
import re
from pathlib import Path

import pytest

from trainwreck import evaluation, scenarios
from trainwreck.evaluation.pages.assets import CHART
from trainwreck.evaluation.pages.templates import hashes, policy, template

ROOTS = [Path(package.__file__).parent for package in (evaluation, scenarios)]
TEMPLATES = [p for root in ROOTS for p in sorted(root.rglob("*.html.jinja")) if "<html" in p.read_text("utf-8")]
SCRIPTS = sorted(p for root in ROOTS for p in root.rglob("*.js"))
JINJA = sorted(p for root in ROOTS for p in root.rglob("*.jinja"))


def test_hashes_are_those_of_a_browser() -> None:
    assert hashes(["1"]) == "'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"
    assert hashes([]) == "'none'"
    assert "style-src 'none'; script" not in policy("a")
    assert "script-src 'none'; style-src 'sha256-" in policy("a")


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_a_template_has_its_policy_before_anything_else_of_the_page(file: Path) -> None:
    text = file.read_text("utf-8")
    assert "unsafe" not in text
    if file.name == "live.html.jinja":  # its server sends the policy
        return
    head = text[text.index("<head>") : text.index("<title>")]
    named = re.search(r"\{\{ policy\((.*?)\) \}\}", head)
    assert named, "no policy"
    styles = re.findall(r"<style>\{\{ (\w+) \}\}</style>", text)
    scripts = re.findall(r"<script>\{\{ (\w+) \}\}</script>", text)
    assert [*styles, *scripts] == named[1].split(", ")
    assert len(re.findall(r"<style|<script>", text)) == len(styles) + len(scripts)


@pytest.mark.parametrize("file", JINJA, ids=lambda file: file.name)
def test_no_template_has_code_in_attributes(file: Path) -> None:
    if file.name != "card.md.jinja":
        assert re.search(r"<[^>]* (style|on[a-z]+)=", file.read_text("utf-8")) is None


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_one_script_alone_writes_markup(file: Path) -> None:
    """Text becomes markup in markup.js, which escapes it."""
    writes = (
        r"\.(innerHTML|outerHTML)\b|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment"
    )
    found = re.findall(writes, file.read_text("utf-8"))
    assert len(found) == (file.name == "markup.js")
    assert re.search(r"""html`[^`]*<[^>`]* style=""", file.read_text("utf-8")) is None


def test_pages_with_charts_escape_by_construction() -> None:
    assert CHART[0] == "markup.js"


def test_a_page_s_own_elements_fit_its_policy() -> None:
    text = template("trainwreck.evaluation.pages", "document.html.jinja").render()
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in text


@pytest.mark.browser
def test_markup_escapes_what_is_put_into_it(open_page, tmp_path):
    script = (ROOTS[0] / "pages/markup.js").read_text("utf-8")
    file = tmp_path / "a.html"
    file.write_text(
        f"<!doctype html><meta charset=utf-8><title>a</title><div id=host></div><script>{script}</script>", "utf-8"
    )
    page = open_page(file)
    evil = "<img src=x onerror='window.hit = 1'>\"&"
    page.evaluate(
        """(evil) => fill(document.getElementById('host'), evil,
          html`<b title="${evil}">${[evil, html`<i>${evil}</i>`]}</b>`, joined([evil, 1], evil))""",
        evil,
    )
    host = page.locator("#host")
    assert host.inner_text().count(evil) == 5
    assert host.locator("img").count() == 0
    assert host.locator("b").get_attribute("title") == evil
    assert host.locator("i").inner_text() == evil
    assert page.evaluate("window.hit === undefined")


@pytest.mark.browser
def test_nothing_but_its_own_scripts_runs(chromium, tmp_path):
    """What came into a page in spite of everything is forbidden by its policy: no script, no handler, no style."""
    text = template("trainwreck.evaluation.pages", "document.html.jinja").render()
    evil = "<body><script>window.hit = 1</script><img src=x onerror='window.hit = 1'><b style='color: red'>b</b>"
    (tmp_path / "a.html").write_text(text.replace("<body>", evil, 1), "utf-8")
    context = chromium.new_context(color_scheme="light")
    page = context.new_page()
    violations: list[str] = []
    page.on("console", lambda said: violations.append(said.text))
    page.goto((tmp_path / "a.html").as_uri())
    assert page.evaluate("window.hit === undefined")
    assert page.evaluate("getComputedStyle(document.querySelector('b')).color") == "rgb(26, 26, 26)"
    assert page.evaluate("getComputedStyle(document.body).maxWidth") != "none"  # its own style sheet holds
    context.close()
    assert sum("Content Security Policy" in line for line in violations) >= 3
