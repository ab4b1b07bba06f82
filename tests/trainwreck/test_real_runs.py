"""`score --labels` and `report --labels` as a user calls them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

LOG = "step,loss\n" + "".join(f"{10 * i},{4 - i / 50}\n" for i in range(60))
LABELS = "run,status,step,cause,cluster\nrun.csv,failed,600,,a\ncalm.csv,healthy,,,b\n"


@pytest.fixture
def mine(call, here: Path) -> Path:
    (here / "run.csv").write_text(LOG + "600,NaN\n", encoding="utf-8")
    (here / "calm.csv").write_text(LOG, encoding="utf-8")
    (here / "said.csv").write_text(LABELS, encoding="utf-8")
    assert call("import", "run.csv", "calm.csv", "--out", "mine").code == 0
    return here


def test_score(call, mine):
    result = call("score", "mine", "--labels", "said.csv", "--detector", "nonfinite_loss")
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "nonfinite_loss on 1 failed and 1 healthy real runs in 2 clusters (0 unknown left out)"
    assert "found, at or after the step  1.00 [0.03, 1.00] by run" in result.out
    assert "healthy runs stopped                     0.00 [0.00, 0.97] by run" in result.out
    assert "not defined: lead (needs the first visible step and the point of no return)" in result.out
    assert "note: 1 failed runs in 1 clusters can't rank detectors" in result.out
    (facts,) = json.loads(call("score", "mine", "--labels", "said.csv", "--detector", "nonfinite_loss", "--json").out)
    assert facts["found"]["run"]["value"] == 1.0
    assert facts["delay"] == {"value": 0.0, "low": None, "high": None}


def test_report(call, mine, monkeypatch):
    from trainwreck.evaluation.detectors.sanity.nonfinite_loss import NonfiniteLoss
    from trainwreck.evaluation.logs.real_runs import page

    monkeypatch.setattr(page, "builtin_detectors", lambda: {"nonfinite_loss": NonfiniteLoss})
    result = call("report", "mine", "--labels", "said.csv", "--detector", "zclip")
    assert result.code == 0, result.err
    assert result.out == "mine/report.html\n"
    assert "These are real runs." in (mine / "mine" / "report.html").read_text(encoding="utf-8")


def test_what_is_refused(call, mine, data_set):
    one = ("--detector", "nonfinite_loss")
    call("score", "mine", "--labels", "none.csv", *one).refused("'none.csv' is not a file")
    call("score", data_set, "--labels", "said.csv", *one).refused("whose labels come from the injection")
    call("score", "mine", "--labels", "said.csv", *one, "--profile", "minimal").refused("'minimal'", "allowed: full")
    call("score", "mine", "--labels", "said.csv", "--detector", "zclop").refused("did you mean 'zclip'?")
    call("report", data_set, *one).refused("--detector: 'nonfinite_loss' is not allowed without --labels")
    (mine / "said.csv").write_text(LABELS.replace("600", "610"), encoding="utf-8")
    for words in (("score", "mine", *one), ("report", "mine")):
        call(*words, "--labels", "said.csv").refused("said.csv, line 2: failure_step 610 is not in the run")
    assert not (mine / "mine" / "report.html").exists()


def test_without_labels_alarms_are_listed_and_the_way_is_told(call, mine):
    result = call("score", "mine", "--detector", "nonfinite_loss")
    assert result.code == 0
    assert "alarms only, no score; --labels FILE scores them" in result.out


ONE_LINERS = ("nonfinite_loss", "loss_over_minimum", "grad_norm_zscore", "any_zscore")


@pytest.fixture
def boards(call, mine, tmp_path):
    """One board of real runs, and one of the shipped sample, with the same detectors."""
    for i in range(3):
        (mine / f"calm{i}.csv").write_text(LOG.replace("4.0,", f"{4 + i},"), encoding="utf-8")
    text = LABELS + "".join(f"calm{i}.csv,healthy,,,calm{i}\n" for i in range(3))
    (mine / "more.csv").write_text(text, encoding="utf-8")
    files = ["run.csv", "calm.csv", *(f"calm{i}.csv" for i in range(3))]
    assert call("import", *files, "--out", "more").code == 0
    detectors = [word for name in ONE_LINERS for word in ("--detector", name)]
    real = call("leaderboard", "more", "--labels", "more.csv", *detectors, "--out", "real")
    assert real.code == 0, real.err
    assert call("score", "sample", *detectors, "--alarms", "alarms").code == 0
    synthetic = call("leaderboard", "sample", "--from", "alarms", "--out", "synthetic")
    assert synthetic.code == 0, synthetic.err
    return real


def test_a_board_of_real_runs_and_how_another_agrees_with_it(call, boards, mine):
    lines = boards.out.splitlines()
    assert lines[0] == "1 failed real runs in 1 clusters, 4 healthy in 4; shares are means over clusters"
    assert lines[1] == "operating point: 5 % stopped"
    assert lines[3].split()[:3] == ["1", "nonfinite_loss", "0.25"]  # of four clusters: 0.05 (4 + 1)
    assert "note: 4 clusters have healthy runs: with so few no recall at 5% is above 0.25" in boards.err
    assert sorted(file.name for file in (mine / "real").iterdir()) == [
        "detections.parquet", "leaderboard.csv", "leaderboard.json", "leaderboard.parquet", "peaks.parquet"
    ]  # fmt: skip
    result = call("transfer", "synthetic", "real")
    assert result.code == 0, result.err
    assert result.out.startswith("4 detectors, in-time recall at 5%, profile full\n")
    assert "note: real: failed runs in 1 clusters can't rank detectors" in result.out
    stopped = re.search(r"Thresholds of BOARD stop (\d+)% .* of the healthy runs of REAL in the median", result.out)
    shares = [
        json.loads(call("transfer", "synthetic", "real", "--json").out)[key] for key in ("stopped", "median_stopped")
    ]
    assert float(np.median(shares[0])) == shares[1]["value"] == pytest.approx(int(stopped[1]) / 100, abs=0.005)
    facts = json.loads(call("transfer", "synthetic", "synthetic", "--json").out)
    assert facts["spearman"]["value"] == facts["kendall"]["value"] == 1.0
    assert 0.0 < facts["ceiling"]["real"]["spearman"] < 1.0  # of a few scenarios
    assert facts["notes"] == []


def test_a_board_of_real_runs_at_other_operating_points(call, mine):
    words = ("leaderboard", "mine", "--labels", "said.csv", "--detector", "nonfinite_loss", "--detector", "always")
    result = call(*words, "--at", "none")
    assert result.code == 0, result.err
    assert "operating point: no threshold\n" in result.out
    rows = json.loads(call(*words, "--json").out)
    assert {row["detector"]: row["recall_default"] for row in rows} == {"nonfinite_loss": 1.0, "always": 0.0}


def test_what_a_board_of_real_runs_and_its_judge_refuse(call, mine, data_set):
    words = ("leaderboard", "mine", "--labels", "said.csv")
    call(*words, "--profile", "minimal").refused("profile: not allowed beside --labels")
    call(*words, "--from", "alarms").refused("from: not allowed beside --labels")
    call(*words, "--detector", "zclop").refused("did you mean 'zclip'?")
    call("leaderboard", data_set, "--labels", "said.csv").refused("whose labels come from the injection")
    call("transfer", "mine", "mine").refused("has no leaderboard.parquet")
    call("transfer", "a", "b", "--at", "none").refused("at: 'none' is not allowed")
    call("transfer", "a", "b", "--profile", "some").refused("profile: 'some' is not allowed")


def test_the_same_in_python(call, boards, mine):
    import trainwreck

    found = trainwreck.leaderboard("more", ONE_LINERS, labels="more.csv")
    rows = json.loads((mine / "real" / "leaderboard.json").read_text(encoding="utf-8"))["rows"]
    again = found.to_dict()["rows"]
    for row in (*rows, *again):
        del row["update_us"]
    assert rows == again
    shown = json.loads(call("transfer", "synthetic", "real", "--json").out)
    assert trainwreck.transfer("synthetic", "real").to_dict() | {"detectors": None} == shown | {"detectors": None}
    with pytest.raises(trainwreck.InputError, match="track: not allowed beside labels"):
        trainwreck.leaderboard("more", labels="more.csv", track="informed")
    with pytest.raises(trainwreck.InputError, match="extra: not allowed beside detectors"):
        trainwreck.leaderboard("more", ["zclip"], labels="more.csv", extra=["never"])
