"""The leaderboard's page and files: alone, without markup from names, and with the numbers of the scores."""

import csv
import html
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load_labels, telemetry_digest, write_manifest, write_runs
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.leaderboard.cache import leaderboard_of
from trainwreck.evaluation.leaderboard.columns import OPERATING, TABLES
from trainwreck.evaluation.pages.leaderboard.board_files import write_board
from trainwreck.evaluation.pages.leaderboard.standings import breakable, heat, threshold_text

EVIL = "<script>alert(1)</script>"
COMMAND = f"trainwreck leaderboard 'data {EVIL}' --out board"
VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}


class Page(HTMLParser):
    """Tags with their attributes, tables as cells of text; complains of tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "small" and {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += "|"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_small_data_set: Callable[..., DataSet]) -> Path:
    root = tmp_path_factory.mktemp("board")
    write_small_data_set(root / "data", plan=f"plan {EVIL}", scenarios=("high_lr", EVIL))
    (root / "mine.py").write_text(
        "import trainwreck\n\n\nclass Mine(trainwreck.Detector):\n"
        f"    rule = {EVIL!r}\n\n    def update(self, row):\n"
        "        if row['step'] == 30:\n            raise ValueError('<b>broken</b>')\n"
        "        return trainwreck.Verdict(row['loss'], row['loss'] > 5, ('high_lr',))\n"
    )
    return root


@pytest.fixture(scope="module")
def scores(folder: Path) -> dict[str, Any]:
    return leaderboard_of(folder / "data", [f"{folder / 'mine.py'}:Mine"], ["full", "filtered"])


@pytest.fixture(scope="module")
def out(folder: Path, scores: dict[str, Any]) -> Path:
    files = write_board(folder / "out", load_labels(folder / "data"), scores, COMMAND)
    assert sorted(folder.joinpath("out").iterdir()) == sorted(files)
    return folder / "out"


@pytest.fixture(scope="module")
def source(out: Path) -> str:
    return (out / "leaderboard.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def rows_of(scores: dict[str, Any], profile: str) -> list[dict[str, Any]]:
    """In the order of the page: who takes part, then who has no rank."""
    rows = [row for row in scores["rows"] if row["profile"] == profile]
    return sorted(rows, key=lambda row: row["rank"] is None)


def boards(page: Page) -> list[list[list[str]]]:
    """The standings: for each profile a table an operating point."""
    return [table for table in page.tables if table[0][0] == "detector" and table[0][1] in ("in-time recall", "area")]


def shown(row: dict[str, Any], key: str, form: str = ".2f") -> str:
    """A number and its interval as a cell has them."""
    value, low, high = (row[f"{key}{end}"] for end in ("", "_low", "_high"))
    low, high = ("-" if end is None else format(end, form) for end in (low, high))
    return f"{value:{form}}|[{low}, {high}]"


def test_it_needs_nothing_from_anywhere(page: Page, source: str) -> None:
    assert not {"script", "link", "iframe", "object", "embed", "base", "img"} & {tag for tag, _ in page.tags}
    assert not re.search(r"https?://|@import|url\(|\bon[a-z]+=", source.replace("http://www.w3.org/2000/svg", ""))
    anchors = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(anchors) == len(set(anchors))
    assert {str(attrs["href"])[1:] for attrs in page.all("a")} <= set(anchors)


def test_names_bring_no_markup_and_stand_as_they_are(page: Page, source: str) -> None:
    assert EVIL not in source
    assert "<b>broken</b>" not in source
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"plan {escaped}" in source
    assert f"data {escaped}" in source
    assert "ValueError: &lt;b&gt;broken&lt;/b&gt;" in source
    assert any(EVIL in row[0] for table in page.tables for row in table if row)


@pytest.mark.parametrize(("place", "profile"), [(0, "full"), (1, "filtered")])
def test_every_row_and_number_of_the_scores_is_on_it(
    place: int, profile: str, page: Page, scores: dict[str, Any]
) -> None:
    assert len(boards(page)) == 2 * len(TABLES)
    expected = rows_of(scores, profile)
    keys = {
        "0.05": {
            "in-time recall": "recall_0.05", "of visible": "recall_of_visible", "healthy stopped": "stopped_0.05",
            "look-alikes stopped": "stopped_look_alike_0.05", "delay": "delay_share", "lead": "lead", "W*": "skill",
            "cause, top 1": "top1", "within set, top 1": "top1_within_set",
        },
        "0.01": {
            "in-time recall": "recall_0.01", "of visible": "recall_of_visible_0.01", "healthy stopped": "stopped_0.01",
            "look-alikes stopped": "stopped_look_alike_0.01", "delay": "delay_share_0.01", "lead": "lead_0.01",
            "W*": "skill_0.01", "cause, top 1": "top1_0.01", "within set, top 1": "top1_within_set_0.01",
        },
        "default": {
            "in-time recall": "recall_default", "of visible": "recall_of_visible_default",
            "healthy stopped": "stopped_default", "look-alikes stopped": "stopped_look_alike_default",
            "false alarms": "false_alarms_per_10000", "delay": "delay_share_default", "lead": "lead_default",
            "W*": "skill_default", "cause, top 1": "top1_default", "within set, top 1": "top1_within_set_default",
        },
        "none": {"area": "area", "volume": "volume"},
    }  # fmt: skip
    forms = {"healthy stopped": ".0%", "look-alikes stopped": ".0%", "false alarms": ".1f"}
    for table, board in zip(TABLES, boards(page)[place * len(TABLES) :], strict=False):
        heads, *lines = board
        found = [line for line in lines if len(line) > 1]
        assert [line[0].split("|")[0].removesuffix("ignores its inputs") for line in found] == [
            row["detector"] for row in expected
        ]
        for line, row in zip(found, expected, strict=True):
            for head, key in keys[table.point].items():
                assert line[heads.index(head)] == shown(row, key, forms.get(head, ".2f")), (table.point, head)


def test_the_panel_of_an_entry_has_a_column_an_operating_point(page: Page, scores: dict[str, Any]) -> None:
    panels = [table for table in page.tables if table[1][0] == "alarm"]
    titles = [table.title for table in TABLES if table.point in OPERATING]
    cards = {(card["profile"], card["detector"]): card for card in scores["cards"]}
    assert len(panels) == len(cards)
    for panel, row in zip(panels, scores["rows"], strict=True):
        points = [cards[row["profile"], row["detector"]]["points"][point] for point in OPERATING]
        assert panel[0][1:] == titles
        lines = {line[0].split("|")[0]: line[1:] for line in panel[1:]}
        assert lines["alarm"] == [f"|{threshold_text(point['recall']['threshold'])}" for point in points]
        assert lines["in-time recall"] == [shown_of(point["recall"]) for point in points]
        assert lines["lead"] == [shown_of(point["lead"]) for point in points]
        assert lines["cause, top 3"] == [shown_of(point["diagnosis"]["cause"]["3"]["macro"]) for point in points]
        delays = [point["delay"]["from_onset"]["restricted_mean_steps"] for point in points]
        assert lines["steps from onset to alarm"] == [shown_of(delay, ".1f") for delay in delays]


def shown_of(estimate: dict[str, Any], form: str = ".2f") -> str:
    return shown({"x": estimate["value"], "x_low": estimate["low"], "x_high": estimate["high"]}, "x", form)


def test_the_share_that_is_visible_in_time_stands_above_each_board(source: str, scores: dict[str, Any]) -> None:
    for profile in ("full", "filtered"):
        share = rows_of(scores, profile)[0]["visible_in_time"]
        assert f"{100 * share:.0f} % of failing runs are visible in time under the profile {profile}" in source


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        (None, "its own alarm"),
        ([], "none: no calibration runs"),
        ([("inf", 1.0)], "never"),
        ([("3.25", 1.0)], "score over 3.25"),
        ([("3.2", 0.7), ("2.9", 0.3)], "score over 3.2 or, in 30 % of runs, over 2.9"),
        ([("inf", 0.5), ("0.9999999999999999", 0.5)], "in 50 % of runs, score of 1 or more"),
        ([("inf", 0.95), ("-inf", 0.05)], "in 5 % of runs, any score"),
        ([("0.0", 0.95), ("-5e-324", 0.05)], "score over 0 or, in 5 % of runs, of 0 or more"),
        (
            [("0.1234567891234", 0.5), (repr(math.nextafter(0.1234567891234, 0)), 0.25), ("-inf", 0.25)],
            "score over 0.1235 or, in 50 % of runs, of 0.1235 or more or, in 25 % of runs, any score",
        ),
    ],
)
def test_a_threshold_in_words(levels: list[tuple[str, float]] | None, text: str) -> None:
    """A run is stopped by the lowest level that is drawn, so the chances of lower levels add up."""
    assert threshold_text(levels and [{"level": level, "chance": chance} for level, chance in levels]) == text


def test_tie_groups_are_those_of_the_ranks(page: Page, scores: dict[str, Any]) -> None:
    board = boards(page)[0]
    heads = [row[0] for row in board if len(row) == 1]
    ranks = [row["rank"] for row in rows_of(scores, "full")]
    for rank in sorted({rank for rank in ranks if rank is not None}):
        count = ranks.count(rank)
        assert any(head.startswith(f"rank {rank}: {count} entries" if count > 1 else f"rank {rank}") for head in heads)
    assert heads[-1] == "no rank: for comparison"


def test_heat_maps_have_every_scenario_with_its_colour(page: Page, scores: dict[str, Any], source: str) -> None:
    table = next(table for table in page.tables if table[0][0] == "scenario")
    detectors, rows = table[0][2:], {row[0]: row for row in table[1:]}
    cards = {card["detector"]: card for card in scores["cards"] if card["profile"] == "full"}
    for name in ("high_lr", EVIL):
        for detector, cell in zip(detectors, rows[name][2:], strict=True):
            share = cards[detector]["breakdown"]["scenario"][name]
            assert cell == f"{share['value']:.0%}"[:-1]
    spike = {d: cards[d]["breakdown"]["look_alike"]["benign_single_spike"]["value"] for d in detectors}
    assert rows["benign_single_spike"][2:] == [f"{100 * share:.0f}" for share in spike.values()]
    ranks = {(row["profile"], row["detector"]): row["rank"] for row in scores["rows"]}
    values = [
        share["value"]
        for card in scores["cards"]
        if ranks[card["profile"], card["detector"]] is not None
        for share in card["breakdown"]["scenario"].values()
    ]
    colours = Counter(map(int, re.findall(r'<td class="h(\d+)" title=', source)))
    assert colours == Counter(map(heat, values))
    assert len(colours) > 1


def test_a_detector_that_failed_says_so_where_it_stands(page: Page, source: str, scores: dict[str, Any]) -> None:
    board = boards(page)[0]
    row = next(row for row in board if row[0].startswith("mine.py:Mine"))
    confined = {row["confinement"] for row in scores["rows"] if row["detector"] == "mine.py:Mine"}
    word = "confined" + " in part" * any("; without" in text for text in confined)
    assert row[0] == f"mine.py:Mine|{word}|failed on 20 of 20 runs"
    (text,) = confined
    assert source.count(f"In a process of its own, confined by {html.escape(text)}.") == 2  # a panel for each profile
    assert "Failed on 20 of 20 runs, which are misses: crashed: ValueError" in source


def test_profiles_and_operating_points_are_radio_buttons_with_names(page: Page) -> None:
    tabs = page.all("input")
    assert {tab["type"] for tab in tabs} == {"radio"}
    assert {tab["id"] for tab in tabs} == {label["for"] for label in page.all("label")}
    by_name: dict[str, list[bool]] = {str(tab["name"]): [] for tab in tabs}
    for tab in tabs:
        by_name[str(tab["name"])].append("checked" in tab)
    first = [True, *(False for _ in TABLES[1:])]
    assert by_name == {"profile": [True, False], "point0": first, "point1": first}
    assert all(chart.get("aria-label") for chart in page.all("svg") if chart.get("role") == "img")
    assert all(chart.get("role") == "img" or chart.get("aria-hidden") for chart in page.all("svg"))
    assert all(area.get("tabindex") == "0" for _, area in page.tags if area.get("role") == "region")


def test_it_says_what_it_is_of_and_how_it_was_made(out: Path, folder: Path) -> None:
    made = json.loads((out / "leaderboard.json").read_text(encoding="utf-8"))["made"]
    assert made["command"] == COMMAND
    assert made["data_set"]["manifest_sha256"] == sha256(folder / "data" / "manifest.json")
    assert made["data_set"]["telemetry_sha256"] == telemetry_digest(load_labels(folder / "data"))
    source = (out / "leaderboard.html").read_text(encoding="utf-8")
    assert all(
        text in source for text in (made["data_set"]["manifest_sha256"], f"scoring {made['versions']['scoring']}")
    )


def test_csv_json_and_parquet_say_the_same(out: Path, scores: dict[str, Any]) -> None:
    with (out / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    table = pq.read_table(out / "leaderboard.parquet").to_pylist()
    content = json.loads((out / "leaderboard.json").read_text(encoding="utf-8"))
    assert content["rows"] == scores["rows"]
    for line, record, row in zip(lines, table, scores["rows"], strict=True):
        for name, value in row.items():
            if isinstance(value, float):
                assert float(line[name]) == record[name] == value
        assert line["detector"] == record["detector"] == row["detector"]
        assert line["scoring_version"] == str(record["scoring_version"]) == str(content["made"]["versions"]["scoring"])
    with (out / "scenarios.csv").open(encoding="utf-8", newline="") as file:
        parts = list(csv.DictReader(file))
    assert len(parts) == len(content["parts"]) > len(lines)
    for part, facts in zip(parts, content["parts"], strict=True):
        if facts["low"] is None:  # no run differs from another
            assert part["low"] == part["high"] == ""
        else:
            low, share, high = (float(part[name]) for name in ("low", "share", "high"))
            assert 0.0 <= low <= share + 1e-12  # of an interval of hardly any width
            assert share - 1e-12 <= high <= 1.0
        assert 0.0 <= float(part["share"]) == facts["share"] <= 1.0
    assert any(part["low"] for part in parts)
    every = [name for name in scores["rows"][0] if f"{name}_low" in scores["rows"][0]]
    assert {"recall_without_easy", "top1_within_set", "stopped_default", "lead", "delay_share"} | {
        "area",
        "volume",
    } <= set(every)


def test_the_same_scores_give_the_same_files(out: Path, folder: Path, scores: dict[str, Any]) -> None:
    for file in write_board(folder / "again", load_labels(folder / "data"), scores, COMMAND):
        assert file.read_bytes() == (out / file.name).read_bytes()


@pytest.mark.browser
def test_it_looks_right_at_every_width_and_on_paper(out: Path, looks_right: Callable[..., None]) -> None:
    looks_right(out / "leaderboard.html", paper=1047)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it. colour: #rrggbb or #rgb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_on_every_colour(dark: bool, source: str) -> None:
    """4.5 to 1, the contrast that WCAG 2.2 asks of text, in both schemes."""
    style = source[source.index("<style>") : source.index("</style>")]
    blocks = re.findall(r":root \{([^}]*)\}", style)
    colours = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]+)", blocks[0]))
    if dark:
        colours |= dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]+)", blocks[1]))
    used = dict(re.findall(r"\.([hk]\d+) \{ background: var\(--[hk]\d+\); color: var\(--(\w+)\); \}", style))
    if dark:
        used |= dict(re.findall(r"\.([hk]\d+) \{ color: var\(--(\w+)\); \}", style))
    assert len(used) == 22
    pairs = [(colours[text], colours[back]) for back, text in used.items()]
    pairs += [(colours[name], colours["back"]) for name in ("text", "mute", "link", "bad")]
    for text, back in pairs:
        low, high = sorted((luminance(text), luminance(back)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, back)


def test_small_parts() -> None:
    assert [heat(value) for value in (None, 0.0, 0.04, 0.06, 1.0)] == [None, 0, 0, 1, 10]
    assert breakable("<a>_b") == "&lt;a&gt;_<wbr>b"


@pytest.mark.parametrize("scenarios", [(), ("high_lr",)])
def test_runs_that_never_fail_visibly_leave_curves_out(
    scenarios: tuple[str, ...], tmp_path: Path, write_small_data_set: Callable[..., DataSet]
) -> None:
    data = write_small_data_set(tmp_path / "data", scenarios=scenarios)
    runs = pq.read_table(data.path / "runs.parquet").to_pylist()
    write_runs(data.path, [run | {"visible_step": None} if run["kind"] == "failing" else run for run in runs])
    write_manifest(data.path, {"plan": "small", "environment": data.manifest["environment"]})
    scores = leaderboard_of(data.path, ["zclip"])
    rows = [(row["profile"], row["detector"]) for row in scores["rows"]]
    assert len(set(rows)) == len(rows), "zclip is one of the board's own"
    assert all(card["counts"]["failing"] == 0 for card in scores["cards"])
    write_board(tmp_path / "out", load_labels(data.path), scores, COMMAND)
    page = Page((tmp_path / "out" / "leaderboard.html").read_text(encoding="utf-8"))
    titles = [attrs.get("aria-label") or "" for attrs in page.all("svg")]
    assert any(title.startswith("Delay curves") for title in titles)
