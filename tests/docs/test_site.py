"""The built site: every scenario and public name on it, nothing loaded from elsewhere, no link that leads nowhere."""

import os
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import trainwreck
from trainwreck.scenarios.spec.registry import scenarios

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parents[2]
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """Links, anchors and what a browser fetches to show the page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.fetched = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        self.fetched += [given[name] for of, name in LOADED if of == tag and given.get(name)]


@pytest.fixture(scope="module")
def site():
    """Every page of the site by path, built strictly, as `make site` does."""
    pytest.importorskip("zensical")
    done = subprocess.run([sys.executable, "docs/site/make.py"], check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr  # what --strict does not count
    folder = ROOT / "site"
    return {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def test_every_scenario_and_every_public_name_is_there(site):
    names = {path.relative_to(ROOT / "site").as_posix() for path in site}
    assert {path.split("/")[-1] for path in names} >= {f"{id}.html" for id in scenarios()}
    api = site[ROOT / "site" / "api" / "index.html"]
    assert {f"trainwreck.{home}.{name}" for name, home in trainwreck._HOMES.items()} <= api.anchors


def test_no_link_leads_nowhere(site):
    dead, seen = [], 0
    for path, page in site.items():
        if path.name == "404.html":  # its links are from the site's root, wherever it is shown
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            seen += 1
            to = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            lost = parts.fragment and to in site and unquote(parts.fragment) not in site[to].anchors
            if not to.is_file() or lost:
                dead.append(f"{path.relative_to(ROOT / 'site')}: {link}")
    assert seen > 5000
    assert dead == []


def test_nothing_is_fetched_from_elsewhere(site):
    outside = {url for page in site.values() for url in page.fetched if urlsplit(url).netloc}
    assert outside == set()
    for sheet in (ROOT / "site").rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert "url(http" not in text
        assert "url(//" not in text
        assert "@import" not in text


class Quiet(SimpleHTTPRequestHandler):
    """Serves without a line a request."""

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def address(site):
    """The site served over HTTP, as its search needs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(ROOT / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "path", ["index", "catalogue/optimisation/gradients_not_cleared", "settings", "glossary", "docs/tour"]
)
def test_pages_look_right_at_both_widths_and_on_paper(address, looks_right, path):
    looks_right(f"{address}/{path}.html", ready="document.readyState === 'complete'")
