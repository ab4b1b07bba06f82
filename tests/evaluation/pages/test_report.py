"""The report: one page that needs nothing else, with everyone and everything on it, and no markup from names."""

import base64
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from matplotlib.image import imread

from trainwreck.evaluation.constants import BOARD_PROFILES
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.cache import SCORES, kept, leaderboard_of
from trainwreck.evaluation.pages.report import write_record, write_report
from trainwreck.evaluation.pages.report.build import examples, story
from trainwreck.evaluation.replay.oracles import ORACLES

EVIL = "<script>alert(1)</script>"
SCENARIOS = ("high_lr", EVIL, "\"><img src=x onerror='alert(2)'>")
EVIL_FILE = "<script>alert(3).py"
EVIL_RULE = '"><b>bold</b>'
VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}


class Page(HTMLParser):
    """Every tag with its attributes; text by the innermost tag; complains of tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.append((self.open[-1], data))
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def within(self, tag: str) -> list[str]:
        return [text for name, text in self.text if name == tag]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory, write_small_data_set: Callable[..., DataSet]) -> Path:
    root = tmp_path_factory.mktemp("report")
    write_small_data_set(root, plan=f"plan {EVIL} & more", scenarios=SCENARIOS)
    (root.parent / EVIL_FILE).write_text(
        f"class Mine:\n    rule = {EVIL_RULE!r}\n    def reset(self, context): pass\n"
        "    def update(self, row): return row['loss'] is not None and row['loss'] > 5\n"
    )
    leaderboard_of(root, [mine(root)])
    return root


def mine(root: Path) -> str:
    return f"{root.parent / EVIL_FILE}:Mine"


@pytest.fixture(scope="module")
def source(scored: Path) -> str:
    return write_report(scored, scored.parent / "report.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_it_looks_right_at_every_width_and_on_paper(
    source: str, scored: Path, looks_right: Callable[..., None]
) -> None:
    looks_right(scored.parent / "report.html", paper=1047)


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_it_needs_nothing_from_anywhere(page: Page, source: str) -> None:
    assert not {"script", "link", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    links = [
        value for _, attrs in page.tags for key, value in attrs.items() if key in ("src", "href", "srcset", "data")
    ]
    assert links
    assert all(value and value.startswith(("#", "data:image/png;base64,")) for value in links)
    assert not re.search(r"https?://|@import|url\(", source)
    anchors = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    assert {attrs["href"][1:] for attrs in page.all("a")} <= anchors  # type: ignore[index]


def test_names_bring_no_markup_and_stand_as_they_are(page: Page, scored: Path) -> None:
    assert not page.all("script")
    assert not page.all("b")
    assert not [attrs for _, attrs in page.tags if any(key.startswith("on") for key in attrs)]
    for scenario in SCENARIOS:
        assert any(text.startswith(scenario) for text in page.within("h3"))
        assert any(attrs["alt"].startswith(f"Curves of {scenario}") for attrs in page.all("img"))  # type: ignore[union-attr]
    assert f"Trainwreck: plan {EVIL} & more" in page.within("title")
    assert Path(mine(scored)).name in [row[1] for row in page.rows]
    assert EVIL_RULE in [attrs.get("title") for attrs in page.all("td")]


@pytest.mark.parametrize("profile", BOARD_PROFILES)
@pytest.mark.parametrize(
    ("place", "keys"),
    [
        (0, {"in-time recall": "recall_0.05", "of visible": "recall_of_visible", "lead": "lead", "W*": "skill"}),
        (1, {"in-time recall": "recall_0.01", "lead": "lead_0.01", "W*": "skill_0.01", "cause, top 1": "top1_0.01"}),
        (2, {"in-time recall": "recall_default", "lead": "lead_default", "W*": "skill_default"}),
        (3, {"area": "area", "volume": "volume"}),
    ],
)
def test_each_table_has_a_row_a_detector_as_the_scores_say(
    place: int, keys: dict[str, str], profile: str, page: Page, scored: Path
) -> None:
    content = kept(load(scored))
    assert content is not None
    scores = [row for row in content["rows"] if row["profile"] == profile]
    size = 1 + len(scores)
    assert len(page.rows) == 4 * len(BOARD_PROFILES) * size
    start = (len(BOARD_PROFILES) * place + BOARD_PROFILES.index(profile)) * size
    head, *rows = page.rows[start : start + size]
    assert all(len(row) == len(head) for row in rows)
    assert [row[1] for row in rows] == [row["detector"] for row in scores]
    assert {row[1] for row in rows} == {*builtin_detectors(), *ORACLES, Path(mine(scored)).name}
    for shown, row in zip(rows, scores, strict=True):
        assert shown[0] == ("-" if row["rank"] is None else f"{row['rank']:g}")
        for name, key in keys.items():
            assert shown[head.index(name)].startswith(f"{row[key]:.2f} [")


def test_the_share_that_is_visible_in_time_stands_above_the_tables(page: Page, scored: Path) -> None:
    scores = kept(load(scored))
    assert scores is not None
    share = scores["rows"][0]["visible_in_time"]
    assert f"{100 * share:.0f} % of failing runs are visible in time under the profile full." in page.within("p")


def test_there_is_a_figure_a_scenario(page: Page, scored: Path) -> None:
    runs = load(scored).runs
    images = page.all("img")
    assert len(images) == len(SCENARIOS) + 1, "and the look-alike"
    assert {attrs["id"] for attrs in page.all("article")} <= set(runs["run_id"])
    pictures = {attrs["src"] for attrs in images}
    assert len(pictures) == len(images), "each its own"
    for picture in pictures:
        assert picture is not None
        image = imread(BytesIO(base64.b64decode(picture.removeprefix("data:image/png;base64,"))))
        assert image[..., :3].std() > 0.01, "not blank"


def test_a_look_alike_is_not_called_faulty(scored: Path) -> None:
    data = load(scored)
    scores = kept(data)
    assert scores is not None
    called = {row["kind"]: story(data, row, scores, "loss").called for _, row in examples(data).iterrows()}
    assert called == {"failing": "faulty", "look-alike": "look-alike"}


def test_what_the_label_says_is_said(page: Page, source: str) -> None:
    assert "Onset at step 15." in source
    assert re.search(r"<code>loss</code> \(17\), *\n?<code>grad_norm</code> \(19\)\.", source)
    assert page.within("span").count("final gap +1.250 nats") == len(SCENARIOS)
    assert page.within("dt").count("Failure") == page.within("dd").count("It fails.") == len(SCENARIOS) + 1


def test_the_same_data_set_gives_the_same_page(scored: Path, source: str, tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    again = write_report(scored, tmp_path / "r.html", lambda done, total, note: ticks.append((done, total)))
    assert again.read_text(encoding="utf-8") == source
    assert ticks == [(i, 4) for i in range(1, 5)]


def test_what_was_not_scored_is_scored_first(tmp_path: Path, write_small_data_set: Callable[..., DataSet]) -> None:
    write_small_data_set(tmp_path / "data", scenarios=("high_lr",))
    write_report(tmp_path / "data", tmp_path / "r.html")
    assert kept(load(tmp_path / "data")) is not None
    assert len(Page((tmp_path / "r.html").read_text(encoding="utf-8")).all("img")) == 2


@pytest.mark.parametrize("name", [SCORES, "manifest.json", "catalogue.json"])
def test_a_broken_file_is_one_line_and_an_old_report_stays(name: str, scored: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(scored, tmp_path / "copy"))
    (folder / name).write_text("{")
    (tmp_path / "r.html").write_text("old")
    with pytest.raises(InputError, match=re.escape(f"{folder / name}: damaged")) as error:
        write_report(folder, tmp_path / "r.html")
    assert "\n" not in str(error.value)
    assert (tmp_path / "r.html").read_text() == "old"
    assert {file.name for file in tmp_path.iterdir()} == {"copy", "r.html"}


def test_the_record_holds_the_same_scores_and_a_picture_a_scenario(
    tmp_path: Path, write_small_data_set: Callable[..., DataSet]
) -> None:
    data = write_small_data_set(tmp_path / "data")
    earlier = tmp_path / "out" / "pictures" / "no_longer_shown.png"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    out = write_record(tmp_path / "data", tmp_path / "out")
    scores = kept(data)
    assert scores is not None
    assert json.loads((out / "leaderboard.json").read_text()) == scores["rows"]
    assert json.loads((out / "environment.json").read_text()) == data.manifest["environment"]
    names = {"benign_single_spike.png", "corrupt_tokens.png", "high_lr.png"}
    assert {file.name for file in (out / "pictures").iterdir()} == names
    text = (out / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(pictures/(.*?)\)", text)) == names
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    detectors = [row["detector"] for row in scores["rows"]]
    tables = [row for row in rows if row[2:3] in (["profile"], *([profile] for profile in BOARD_PROFILES))]
    assert [row[1] for row in tables] == 4 * ["detector", *detectors]
    assert [row[3] for row in tables[:: 1 + len(detectors)]] == [*3 * ["in-time recall"], "area"]
    share = scores["rows"][0]["visible_in_time"]
    assert f"\n{100 * share:.0f} % of failing runs are visible in time under the profile full.\n" in text
