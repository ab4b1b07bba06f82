"""results/public-logs: its page has what its labels and its board say, and pages cite what `transfer` finds on it."""

import re
from pathlib import Path

import pandas as pd
import pytest

from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.intervals import interval_text
from trainwreck.evaluation.leaderboard.transfer.transfer import transfer
from trainwreck.evaluation.logs.labels import read_labels

RESULTS = Path(__file__).resolve().parents[4] / "results"
RECORD = RESULTS / "public-logs"


def page(path):
    return " ".join((RESULTS / path).read_text("utf-8").split())


@pytest.fixture(scope="module")
def labels():
    assert len(read_labels(RECORD / "labels.csv")) == 139
    return pd.read_csv(RECORD / "labels.csv")


def test_the_page_counts_the_labels(labels):
    found = re.findall(
        r"^\| ([\w-]+/\S+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|",
        (RECORD / "README.md").read_text("utf-8"),
        re.M,
    )
    assert {name: tuple(map(int, counts)) for name, *counts in found} == {
        name: (
            len(part),
            *((part["status"] == one).sum() for one in ("healthy", "failed", "unknown")),
            part["cluster"].nunique(),
        )
        for name, part in labels.groupby("repository")
    }
    clusters = labels.groupby("status")["cluster"].nunique()
    runs = labels["status"].value_counts()
    assert (
        f"{runs['healthy']} healthy logs are in {clusters['healthy']} clusters, "
        f"{runs['failed']} failed ones in {clusters['failed']}."
    ) in page("public-logs/README.md")
    assert f"0 for the {(labels['step'] == 0).sum()} runs that never learn" in page("public-logs/README.md")


def test_the_page_has_the_numbers_of_the_board():
    board = pd.read_csv(RECORD / "board" / "leaderboard.csv").set_index("detector")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", (RECORD / "README.md").read_text("utf-8"), re.M)
    assert len(rows) > 10
    columns = ("recall_0.05", "recall_lenient_0.05", "recall_default", "stopped_default")
    for name, numbers in rows:
        row = board.loc[name]
        assert numbers.split(" | ") == [
            interval_text(*(row[at + end] for end in ("", "_low", "_high"))) for at in columns
        ]


def test_the_board_is_of_these_logs(labels):
    board = pd.read_csv(RECORD / "board" / "leaderboard.csv")
    assert set(board["labels_sha256"]) == {sha256(RECORD / "labels.csv")}
    found = pd.read_parquet(RECORD / "board" / "detections.parquet")
    healthy = pd.read_parquet(RECORD / "board" / "peaks.parquet")
    for runs, status in ((found, "failed"), (healthy, "healthy")):
        mine = labels[labels["status"] == status]
        judged = runs.drop_duplicates("run_id")
        assert judged["cluster"].value_counts().to_dict() == mine["cluster"].value_counts().to_dict()


@pytest.mark.parametrize(
    ("name", "row", "cited"),
    [
        ("wild", "`wild`, ", "with that of `wild` by {0}."),
        ("standard", "`standard` (", "with its board by {1} (Spearman)"),
    ],
)
def test_pages_cite_what_transfer_finds(name, row, cited):
    found = transfer(RESULTS / name / "board", RECORD / "board", profile="common")
    spearman, kendall = (interval_text(*one) for one in (found.spearman, found.kendall))
    assert re.search(
        rf"\| {re.escape(row)}[^|]+\| {re.escape(spearman)} \| {re.escape(kendall)} \|", page("wild/README.md")
    )
    assert spearman in page("../docs/results.md")
    assert cited.format(spearman, f"{found.spearman.value:.2f}") in page("../README.md")
    if name == "wild":
        value, low, high = (f"{one * 100:.0f} %" for one in found.median_stopped)
        assert f"| {value} [{low}, {high}] |" in page("wild/README.md")
        assert f"thresholds of `wild` stop {value} of the healthy logs" in page("../docs/results.md")


def test_the_page_of_wild_has_its_detectors_on_both_boards():
    boards = [pd.read_csv(RESULTS / name / "board" / "leaderboard.csv") for name in ("wild", "public-logs")]
    recall = [board.set_index("detector")[[f"recall_0.05{end}" for end in ("", "_low", "_high")]] for board in boards]
    found = transfer(RESULTS / "wild" / "board", RECORD / "board", profile="common").to_frame().set_index("detector")
    text = (RESULTS / "wild" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (\d+ %) \|$", text, re.M)
    assert len(rows) == 8
    for name, *spans, stopped in rows:
        assert spans == [interval_text(*board.loc[name]) for board in recall]
        assert stopped == f"{found.loc[name, 'stopped'] * 100:.0f} %"
