"""Pages of data with hostile names and texts: nothing in them runs but the package's own scripts.

Texts go straight to what writes a page, past the checks of `load`, since a page has to hold on its own.
"""

import base64
import copy
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from trainwreck.evaluation.constants import ONE_LINERS
from trainwreck.evaluation.dataset.dataset import DataSet, load, telemetry_digest
from trainwreck.evaluation.dataset.documents import Pages
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.detectors.published.zclip import ZClip
from trainwreck.evaluation.detectors.sanity.blind import Never
from trainwreck.evaluation.diagnosis.diagnosis import diagnose
from trainwreck.evaluation.diagnosis.page import write_page as write_diagnosis
from trainwreck.evaluation.files import write_csv
from trainwreck.evaluation.leaderboard import cache
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.logs.imported import import_logs
from trainwreck.evaluation.logs.real_runs import page as real_runs
from trainwreck.evaluation.pages.figures import alarm_row
from trainwreck.evaluation.pages.gallery import build as gallery
from trainwreck.evaluation.pages.gallery import cards
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
from trainwreck.evaluation.pages.leaderboard.standings import page as standings
from trainwreck.evaluation.pages.live_page.page import Mark, Show, render
from trainwreck.evaluation.pages.live_page.server import policy
from trainwreck.evaluation.pages.quiz.answers import NOTHING, Answer, Sheet
from trainwreck.evaluation.pages.quiz.classroom.class_page import write_class
from trainwreck.evaluation.pages.quiz.classroom.scores import results
from trainwreck.evaluation.pages.quiz.classroom.summary import confusions, run_rows
from trainwreck.evaluation.pages.quiz.page import write_page as write_quiz
from trainwreck.evaluation.pages.quiz.quiz import Quiz, make
from trainwreck.evaluation.pages.quiz.recipe import Recipe
from trainwreck.evaluation.pages.report import build as report

from . import hostile

pytestmark = pytest.mark.fuzz

DETECTORS = ONE_LINERS
TEXTS = tuple(text[:3000] for text in hostile.TEXTS)
STRUCTURE = {"telling", "kind", "axis", "run_id", "profile"}  # keys whose values are looked up


def texts(draw: random.Random, content: Any, share: float, keep: frozenset[str] = frozenset()) -> Any:
    """The same with some of its texts hostile. keep: texts that are keys into something."""
    if isinstance(content, dict):
        return {k: v if k in STRUCTURE else texts(draw, v, share, keep) for k, v in content.items()}
    if isinstance(content, list):
        return [texts(draw, one, share, keep) for one in content]
    if isinstance(content, str) and content not in keep and draw.random() < share:
        return draw.choice(TEXTS)
    return content


class Checked(HTMLParser):
    """Fails at what could run: a script that the policy does not name, a handler, a style, an address that is code."""

    def __init__(self, text: str, header: str | None = None) -> None:
        super().__init__(convert_charrefs=True)
        self.policies = [header] if header else []
        self.script: str | None = None
        self.scripts = 0
        self.feed(text)
        self.close()
        assert len(self.policies) == 1, "one policy"
        assert "unsafe" not in self.policies[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("iframe", "object", "embed", "base", "applet", "foreignobject"), tag
        values = dict(attrs)
        assert len(values) == len(attrs), f"{tag}: an attribute twice"
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            assert name != "style", f"{tag} style"
            assert re.fullmatch(r"[a-z][a-zA-Z:-]*\d*", name), f"{tag} {name!r}"
            if name in ("href", "src", "action", "xlink:href"):
                assert re.match(r"#|data:image/png;base64,|data:,$", value or "#"), value
        if tag == "meta" and "http-equiv" in values:
            assert values["http-equiv"] == "Content-Security-Policy"
            self.policies.append(str(values["content"]))
        if tag == "script" and values.get("type") not in ("application/json", "text/plain"):
            self.script = ""
        if tag == "script":
            assert set(values) <= {"type", "id", "data-twin"}

    def handle_data(self, data: str) -> None:
        if self.script is not None:
            self.script += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self.script is not None:
            digest = base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in self.policies[0].partition("script-src")[2].partition(";")[0]
            assert self.script.startswith('"use strict"'), "a script that is not the package's"
            assert "window.hit" not in self.script
            self.script, self.scripts = None, self.scripts + 1


@pytest.fixture(scope="module")
def whole() -> DataSet:
    return load(sample())


@pytest.fixture(scope="module")
def board(whole: DataSet) -> dict[str, Any]:
    return cache.standing(whole, score_all(whole, list(DETECTORS)))


@pytest.fixture(scope="module")
def quiz(whole: DataSet) -> Quiz:
    recipe = Recipe(telemetry_digest(whole), seed=7, runs=8, profile="full")
    return make(whole, recipe, dict.fromkeys(set(whole.runs["cause"]) - {""}, "data"), ["never"])


def with_texts(draw: random.Random, data: DataSet, share: float) -> DataSet:
    """The data set with hostile pages, labels and provenance. Ids and names of signals are keys."""
    runs = data.runs.copy()
    for column in ("family", "size", "base"):
        places = [draw.random() < share / 4 for _ in range(len(runs))]
        runs.loc[places, column] = [draw.choice(TEXTS) for _ in range(sum(places))]
    steps = [draw.choice(TEXTS) for _ in range(len(runs))]
    hit = [json.dumps({draw.choice(TEXTS): step, "loss": step}) if draw.random() < share else None for step in steps]
    runs["visible_steps"] = [one or old for one, old in zip(hit, runs["visible_steps"], strict=True)]
    keep = frozenset(("text", "language"))
    found = DataSet(
        data.path, texts(draw, copy.deepcopy(data.manifest), share, frozenset(data.manifest["files"])), runs
    )
    found.manifest["files"] = data.manifest["files"]
    pages = texts(draw, copy.deepcopy(dict(data.pages)), share, keep)
    found.__dict__["pages"] = Pages(data.path / "catalogue.json", pages)
    return found


def catalogue(draw: random.Random, names: list[str]) -> Catalogue:
    def text() -> str:
        return draw.choice(TEXTS)

    rows = [{"setting": text(), "default": text(), "here": text()}]
    injected = {
        "settings": rows,
        "size": text(),
        "base": text(),
        "when": text(),
        "lines": [f"+{text()}", f"-{text()}"],
        "no_lines": text(),
    }
    return Catalogue(
        symptoms={name: ["spike"] for name in names},
        imitates={names[0]: [names[1], text()]},
        shapes={"spike": (text(), text())},
        unproven=[{"id": text(), "family": text(), "fault": text(), "tried": text()}],
        injected=dict.fromkeys(names, injected),
    )


def test_pages_of_hostile_texts(
    attempts: Callable[[], Iterator[random.Random]],
    whole: DataSet,
    board: dict[str, Any],
    quiz: Quiz,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "_picture", lambda story: "data:image/png;base64,")
    monkeypatch.setattr(cards, "png_url", lambda figure, dpi: "data:image/png;base64,")
    monkeypatch.setattr(cards, "draw", lambda story: None)
    for draw in attempts():
        share = draw.choice([0.05, 0.3, 1.0])
        data = with_texts(draw, whole, share)
        names = sorted(whole.pages)
        for module in (gallery, report):
            monkeypatch.setattr(module, "load", lambda folder, data=data: data)
        for place, make_page in enumerate(PAGES):
            if draw.random() < 0.5 or share == 1.0:
                text, header = make_page(draw, data, board, quiz, names, tmp_path / f"{place}", monkeypatch)
                assert Checked(text, header).scripts or "<script>" not in text


def a_gallery(
    draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any
) -> Any:
    gallery.write_gallery([data.path], out, catalogue(draw, names), detectors=("never",), command=draw.choice(TEXTS))
    return out.read_text("utf-8"), None


def some_cards(
    draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any
) -> Any:
    cards.write_cards([data.path], out, catalogue(draw, names), draw.choice(["eight", "all"]))
    return out.read_text("utf-8"), None


def a_report(
    draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any
) -> Any:
    patch.setattr(report, "at_hand", lambda dataset: with_names(draw, board))
    report.write_report(data.path, out)
    return out.read_text("utf-8"), None


def with_names(draw: random.Random, board: dict[str, Any]) -> dict[str, Any]:
    """The board with detectors that are called something else, and hostile notes."""
    found = copy.deepcopy(board)
    called = {name: f"{draw.choice(TEXTS)}{i}" for i, name in enumerate(DETECTORS) if draw.random() < 0.7}
    for part in ("rows", "cards", "detections"):
        for one in found[part]:
            one["detector"] = called.get(one["detector"], one["detector"])
    for card in found["cards"]:
        card["about"] = texts(draw, card["about"], 0.7)
        card["notes"] = [draw.choice(TEXTS)]
    return found


def a_board(draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any) -> Any:
    from trainwreck.evaluation.pages.leaderboard.board_files import made

    facts = made(data, board, draw.choice(TEXTS))
    return standings(with_names(draw, board), facts), None


def a_quiz(draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any) -> Any:
    titles = {name: draw.choice(TEXTS) for name in quiz.families}
    families = {name: draw.choice(TEXTS) for name in quiz.families}
    write_quiz(out, data, replace(quiz, families=families), titles, beginner=False)
    return out.read_text("utf-8"), None


def a_class(draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any) -> Any:
    answers = tuple(Answer(i, NOTHING) for i in range(1, len(quiz.runs) + 1))
    players = draw.sample(sorted({t for t in TEXTS if t}), 3)  # each once, which `results` asks
    sheets = [Sheet(player, f"{i:016x}", quiz.recipe, answers) for i, player in enumerate(players)]
    found = results(sheets, {quiz.recipe.id: quiz})
    runs = [row | {"scenario": draw.choice(TEXTS)} for row in run_rows(found)]
    write_class(
        out, found, runs, [{"cause": draw.choice(TEXTS), "named": draw.choice(TEXTS), "times": 2}, *confusions(found)]
    )
    for name in ("people.csv", "runs.csv", "confusions.csv"):
        for row in pd.read_csv(out / name, keep_default_na=False, dtype=str).itertuples(index=False):
            for cell in row:
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or is_number(cell), cell
    return (out / "class.html").read_text("utf-8"), None


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def a_diagnosis(
    draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any
) -> Any:
    run = data.runs.index[0]
    title = draw.choice(TEXTS)
    page = texts(draw, copy.deepcopy(dict(load(sample()).pages)), 0.5)
    found = diagnose(load(sample()).trace(run), title, lambda name: page.get(name) or page["corrupt_tokens"], "common")
    write_diagnosis(found, out)
    return out.read_text("utf-8"), None


def a_live_page(
    draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any
) -> Any:
    def text() -> str:
        return draw.choice(TEXTS)

    show = Show(
        text(), text(), text(), [text(), text()], {name: text() for name in ("Failure", "Mechanism", "Cure")},
        {"faulty": text(), "twin": text()}, "layer_grad_norm", [Mark(3, "s", text())], 60, 2,
    )  # fmt: skip
    page = render(show, "0123")
    return page, policy(page)


def real(draw: random.Random, data: DataSet, board: Any, quiz: Quiz, names: list[str], out: Path, patch: Any) -> Any:
    """Logs, a file of labels and detectors with names that a file can have."""
    out.mkdir(exist_ok=True)
    # A cell of a file of labels is read without the blanks around it.
    allowed = [
        text
        for text in TEXTS
        if text and text == text.strip() and not set(text) & set("\0/\n\r\ud800") and len(text) < 200
    ]
    log = out / f"{draw.choice(allowed)}.csv"
    log.write_text("step,loss\n" + "".join(f"{i},{4 - i / 30}\n" for i in range(40)), encoding="utf-8")
    labels = out / "labels.csv"
    pd.DataFrame([{"file": log.name, "outcome": "healthy", "cluster": draw.choice(TEXTS)}]).to_csv(labels, index=False)
    folder = out / f"data{draw.randrange(10**9)}"
    import_logs([log], folder)
    kinds = {kind.name: kind for kind in (ZClip, Never)}
    patch.setattr(real_runs, "builtin_detectors", lambda: kinds)
    real_runs.write_page(load(folder), labels, out / "real.html")
    log.unlink()
    return (out / "real.html").read_text("utf-8"), None


PAGES = (a_gallery, some_cards, a_report, a_board, a_quiz, a_class, a_diagnosis, a_live_page, real)


def test_names_in_pictures_and_tables(attempts: Callable[[], Iterator[random.Random]], tmp_path: Path) -> None:
    """matplotlib draws each name as it is; a spreadsheet runs none."""
    from matplotlib.figure import Figure

    for draw in attempts():
        figure = Figure(figsize=(4, 2))
        names = [text for text in draw.sample(TEXTS, 4) if text.isascii() and len(text) < 200]
        alarm_row(figure.subplots(), {name: i for i, name in enumerate(names)})
        figure.savefig(tmp_path / "a.png")
        table = pd.DataFrame({"name": [*names, "-1.5"], "number": [-1.5] * (len(names) + 1)})
        write_csv(tmp_path / "a.csv", table)
        assert SimpleNamespace(**pd.read_csv(tmp_path / "a.csv").iloc[-1]).number == -1.5


@pytest.mark.browser
def test_a_gallery_of_hostile_texts_in_a_browser(
    attempts: Callable[[], Iterator[random.Random]],
    whole: DataSet,
    open_page: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What scripts make of the texts: no handler runs, and the policy has nothing to forbid."""
    names = sorted(whole.pages)
    for number, draw in enumerate(attempts()):
        data = with_texts(draw, whole, 1.0)
        monkeypatch.setattr(gallery, "load", lambda folder, data=data: data)
        out = tmp_path / f"{number}.html"
        gallery.write_gallery([data.path], out, catalogue(draw, names), detectors=("never",))
        page = open_page(out)
        page.until("document.body.dataset.drawn === 'cards'")
        for name in draw.sample(names, 3):
            page.evaluate("(name) => { location.hash = name; }", name)
            page.until("(name) => document.getElementById('exhibit').dataset.drawn === name", name)
            assert page.evaluate("window.hit === undefined")
            assert page.locator("#exhibit img, #exhibit script").count() == 0
        page.close()
