"""The detectors that need a library stand on boards only where they are asked for: `pytest -m monitors`.

So every other test sees the same detectors whatever happens to be installed, in other processes too.

Libraries that make threads of their own, such as scikit-learn's trees, get one: there is a worker for each core
already, and on busy cores threads wait for each other many times longer than they work.

Tests of the files and folders of tests/long.txt are marked `long`: a minute of one core, or seconds each.

Tests marked `browser` open pages in the Chromium that the system has: $CHROMIUM, or the one on the PATH.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before a library is imported that reads it

SWITCH = "TRAINWRECK_MONITORS"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
PATIENCE, PAUSE = 30_000, 25  # milliseconds
TESTS = Path(__file__).parent
LONG = {TESTS.parent / line for line in (TESTS / "long.txt").read_text(encoding="utf-8").split()}


def pytest_configure(config: pytest.Config) -> None:
    markers = config.option.markexpr
    os.environ[SWITCH] = "on" if "monitors" in markers and "not monitors" not in markers else "off"


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long = {path for path in {item.path for item in items} if not LONG.isdisjoint((path, *path.parents))}
    for item in items:
        if item.path in long:
            item.add_marker(pytest.mark.long)
    if os.environ[SWITCH] == "off":
        for item in items:
            if item.get_closest_marker("monitors"):
                item.add_marker(pytest.mark.skip(reason="pytest -m monitors, or make monitors, runs it"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser of Playwright; skips where there is no Chromium, or no Playwright."""
    program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if program is None:
        pytest.skip(f"no {os.environ.get('CHROMIUM', 'chromium')} on the PATH; CHROMIUM names another one")
    api = pytest.importorskip("playwright.sync_api", reason="pip install 'trainwreck[browser]', or make browser")
    with api.sync_playwright() as playwright:
        # As root Chromium has no sandbox; the pages are our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def until(page: Any, expression: str, argument: Any = None) -> None:
    for _ in range(PATIENCE // PAUSE):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(PAUSE)
    pytest.fail(f"never so: {expression}")


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file or an address in a context of its own: open_page(where, phone=True, color_scheme=...).

    page.until(expression, argument) waits for what is so in the page, where Playwright's own waiting would ask again by
    eval, which the pages' policy forbids.
    The test fails at its end if any page wrote an error or a warning to the console, or asked for anything
    beyond where it was opened: the file itself, or the address's own host.
    """
    contexts, complaints = [], []

    def opened(where: Path | str, *, phone: bool = False, **options: Any) -> Any:
        address = where.resolve().as_uri() if isinstance(where, Path) else where
        own = address if isinstance(where, Path) else "/".join(address.split("/", 3)[:3]) + "/"
        context = chromium.new_context(**(PHONE if phone else {}), **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.until = partial(until, page)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}") if said.type in LOUD else None)
        page.on("request", lambda asked: complaints.append(f"request: {asked.url[:200]}") if strays(asked, own) else 0)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def looks_right(open_page: Callable[..., Any]) -> Callable[..., None]:
    """Asserts that a page is fine at both widths, light and dark, and on paper: looks_right(where, paper=...).

    Nothing is wider than the window and axe finds nothing serious; printed, nothing is wider than the paper between
    margins of a centimetre, which is `paper` pixels (718 upright, 1047 lying), and the background is white. ready: an
    expression that is true when the page is drawn.
    """
    from axe_playwright_python.sync_playwright import Axe

    def check(where: Path | str, *, paper: int = 718, ready: str = "true") -> None:
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                window = {"width": width, "height": 900}
                page = open_page(where, viewport=window, color_scheme=scheme, bypass_csp=True)  # axe is put in
                page.until(ready)
                assert page.evaluate(TOO_WIDE) == [], (width, scheme)
                found = Axe().run(page).response["violations"]
                serious = [one for one in found if one["impact"] in ("serious", "critical")]
                assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], (width, scheme)
        page.emulate_media(media="print", color_scheme="light")
        page.set_viewport_size({"width": paper, "height": 900})
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate(TOO_WIDE) == [], "on paper"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") in WHITE

    return check


# What reaches over the right edge of the window and is not cut or scrolled by something around it.
TOO_WIDE = """[...document.querySelectorAll("body *")].filter((one) => {
  if (one.closest("svg") || !one.checkVisibility()) return false;
  for (let around = one.parentElement; around; around = around.parentElement)
    if (getComputedStyle(around).overflowX !== "visible") return false;
  return one.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
}).map((one) => one.outerHTML.slice(0, 120))"""
WHITE = ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
LOUD = ("error", "warning")


def strays(asked: Any, own: str) -> bool:
    """Whether a request leaves the page: data and blob addresses are of the page itself."""
    return not asked.url.startswith((own, "data:", "blob:"))
