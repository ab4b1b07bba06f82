"""`score --labels` and `report --labels` as a user calls them."""

import json
from pathlib import Path

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
