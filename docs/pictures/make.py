"""The pictures of gallery and quiz in the documentation, from the shipped sample: python docs/pictures/make.py

Needs the extra `browser` and Chromium (the one on the PATH, or $CHROMIUM). Those of the tour are renewed by
tests/packaging/tour.py, those of the demo by `trainwreck report demo --record`.
"""

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import trainwreck

HERE = Path(__file__).resolve().parent
WINDOW = {"width": 1280, "height": 900}


def gallery(page: Page, file: Path) -> None:
    """All scenarios, and one of them."""
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-drawn=cards]")
    page.screenshot(path=HERE / "gallery-overview.png")
    page.goto(f"{file.as_uri()}#gradients_not_cleared")
    page.wait_for_selector("[data-part=layers] canvas")
    page.set_viewport_size(WINDOW | {"height": 1450})
    page.screenshot(path=HERE / "gallery-scenario.png")
    page.set_viewport_size(WINDOW)


def quiz(page: Page, file: Path) -> None:
    """The first run that fails, after a stop with a wrong cause: the guess is shown beside the truth."""
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-ready]")
    page.fill("input[name=player]", "Ada")
    page.click("[data-start]")
    while True:
        for _ in range(13):
            page.locator("[data-control=skip]:visible").first.click()
        page.locator("[data-control=stop]:visible").first.click()
        page.locator("[data-list] [data-name]").first.click()
        page.locator("[data-control=answer]:visible").first.click()
        page.wait_for_selector("[data-part=told]:not([hidden]) [data-verdict]")
        fine = "this run was fine" in page.inner_text("[data-verdict]")
        if not fine and page.locator("[data-part=guess] .chart").count():
            break
        page.locator("[data-control=next]:visible").first.click()
    page.set_viewport_size(WINDOW | {"height": 1350})
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=HERE / "quiz.png")


def main() -> None:
    """Write the pages into a temporary folder and take their pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        program = shutil.which(os.environ.get("CHROMIUM", "chromium"))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, color_scheme="light")
        out = Path(folder)
        trainwreck.gallery("sample", out=out / "gallery.html")
        gallery(page, out / "gallery.html")
        trainwreck.quiz("sample", out=out / "quiz.html", beginner=True)
        quiz(page, out / "quiz.html")
        browser.close()


if __name__ == "__main__":
    main()
