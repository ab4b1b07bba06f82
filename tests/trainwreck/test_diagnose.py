"""`diagnose` as a user calls it, and in Python."""

import json
import math

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import load

LOSSES = [2 + 8 * math.exp(-i / 20) + 0.02 * (i * 7 % 5) for i in range(200)]
HEALTHY = "step,loss\n" + "".join(f"{10 * i},{loss:.4f}\n" for i, loss in enumerate(LOSSES))


@pytest.fixture
def logs(here):
    (here / "good.csv").write_text(HEALTHY, encoding="utf-8")
    bad = HEALTHY.replace("step,loss", "it;ce").replace(",", ";") + "2000;nan\n"
    (here / "bad.csv").write_text(bad, encoding="utf-8")
    return here


def test_a_log_that_is_wrong_and_one_that_is_not(call, logs):
    result = call("diagnose", "good.csv")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("good.csv: nothing wrong that this log could show\n")
    result = call("diagnose", "bad.csv", "--map", "ce=loss")
    assert result.code == 0
    assert result.out.startswith("bad.csv: something is wrong, since step 2000\n")
    assert "trainwreck show nan_weight_spread" in result.out
    (facts,) = json.loads(call("diagnose", "bad.csv", "--map", "ce=loss", "--json").out)
    assert (facts["verdict"], facts["since"], facts["log"]["rows"]) == ("wrong", 2000, 201)


def test_a_page_of_one_run(call, logs):
    result = call("diagnose", "good.csv", "--out", "answer.html")
    assert result.out.endswith("page: answer.html\n")
    assert "<title>good.csv: nothing wrong that this log could show - Trainwreck" in (logs / "answer.html").read_text()


def test_a_run_of_a_data_set(call, here):
    runs = load("sample").runs
    run_id = runs.index[runs["scenario"] == "nan_weight_spread"][0]
    onset = int(runs.loc[run_id, "onset_step"])
    assert f"{run_id}: something is wrong, since step {onset}" in call("diagnose", "sample", run_id).out
    found = trainwreck.diagnose("sample", run_id, profile="common")
    assert (found.verdict, found.since) == ("wrong", onset)
    assert trainwreck.diagnose("sample", run_id, profile="common").run.profile == "common"


def test_runs_of_the_sample_as_logs(call, here):
    runs = load("sample").runs
    failing = runs[(runs["scenario"] == "gradients_not_cleared") & (runs["kind"] == "failing")].iloc[0]
    assert call("export", "sample", failing["run_id"], failing["twin_id"], "--to", "trackio", "--out", "logs").code == 0
    found = trainwreck.diagnose(f"logs/{failing['run_id']}.csv", profile="common")
    assert (found.verdict, found.near[0].cause) == ("wrong", "gradients_not_cleared")
    assert 0 <= found.since - failing["onset_step"] <= 10
    twin = trainwreck.diagnose(f"logs/{failing['twin_id']}.csv", profile="common")
    assert (twin.verdict, twin.since) == ("nothing", None)


def test_every_run_of_a_log_has_an_answer(call, logs):
    for name in ("version_0", "version_1"):
        (logs / "lightning_logs" / name).mkdir(parents=True)
        (logs / "lightning_logs" / name / "metrics.csv").write_text(HEALTHY, encoding="utf-8")
    result = call("diagnose", "lightning_logs")
    assert result.out.count(": nothing wrong that this log could show\n") == 2
    assert call("diagnose", "lightning_logs", "version_1").out.startswith("lightning_logs/version_1: nothing wrong")
    call("diagnose", "lightning_logs", "--out", "answer.html").refused("it has several runs", "version_0, ")
    call("diagnose", "lightning_logs", "version_7").refused("run: 'version_7' is not allowed", "version_1")


def test_what_a_log_does_not_say_is_said_as_for_import(call, logs):
    rows = "".join(f"{i},{3 - i / 100 if i < 150 else ''}\n" for i in range(200))
    (logs / "blank.csv").write_text(f"step,loss\n{rows}", encoding="utf-8")
    assert "something is wrong, since step 150" in call("diagnose", "blank.csv").out
    (found,) = json.loads(call("diagnose", "blank.csv", "--blank", "missing", "--json").out)
    assert "nonfinite" not in [one["rule"] for one in found["findings"]]
    (logs / "own.txt").write_text("".join(f"at {i} it has {loss:.4f}\n" for i, loss in enumerate(LOSSES)))
    pattern = r"at (?P<step>\d+) it has (?P<loss>\S+)"
    assert call("diagnose", "own.txt", "--pattern", pattern).out.startswith("own.txt: nothing wrong")
    (logs / "bare.csv").write_text("loss\n" + "".join(f"{loss:.4f}\n" for loss in LOSSES), encoding="utf-8")
    (found,) = json.loads(call("diagnose", "bare.csv", "--every", "50", "--json").out)
    assert (found["log"]["first_step"], found["log"]["last_step"]) == (50, 10_000)
    assert trainwreck.diagnose("bare.csv", every=50).to_dict() == found
    call("diagnose", "bare.csv").refused("number the rows with --every N")
    call("diagnose", "blank.csv", "--blank", "no").refused("blank: 'no' is not allowed")
    for option, value in (("--blank", "nan"), ("--every", "2"), ("--pattern", pattern)):
        call("diagnose", "sample", option, value).refused(f"{option}: not allowed for the data set sample")


def test_progress_is_shown_where_there_are_several_runs(call, logs):
    (logs / "two.csv").write_text(
        "run,step,loss\n" + "".join(f"{run},{i},{loss:.4f}\n" for run in "ab" for i, loss in enumerate(LOSSES)),
        encoding="utf-8",
    )
    assert "diagnose: 100% after" in call("diagnose", "two.csv").err
    assert call("diagnose", "two.csv", "--json").err == ""
    assert call("diagnose", "two.csv", "a").err == ""


def test_bad_input_is_refused(call, logs):
    call("diagnose", "nowhere.csv").refused("nowhere.csv: no such file or folder")
    call("diagnose", "good.csv", "other").refused("run: 'other' is not allowed")
    call("diagnose", "good.csv", "--map", "nothing=lr").refused("--map: good.csv has no column 'nothing'")
    call("diagnose", "good.csv", "--profile", "rich").refused("profile: 'rich' is not allowed")
    call("diagnose", "sample", "r0").refused("run: 'r0' is not allowed")
    call("diagnose", "sample", "--format", "csv").refused("not allowed for the data set sample")
    (logs / "bad.jsonl").write_text('{"step": 1, "loss": "two"}\n', encoding="utf-8")
    call("diagnose", "bad.jsonl").refused("bad.jsonl, line 1", "'two' is not a number")
    with pytest.raises(trainwreck.InputError, match=r"no such file"):
        trainwreck.diagnose("nowhere.csv")
