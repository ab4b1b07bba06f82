"""`import` and `export` as a user calls them; and `score` where there are no labels."""

import json
from pathlib import Path

import pytest

import trainwreck
from trainwreck.evaluation.dataset.dataset import load

LOG = "step;train/loss;note\n" + "".join(f"{10 * i};{4 - i / 50:.2f};x\n".replace(".", ",") for i in range(60))


@pytest.fixture
def log(here: Path) -> Path:
    (here / "run.csv").write_text(LOG + "600;NaN;x\n", encoding="utf-8")
    return Path("run.csv")


def test_import_and_score(call, here, log):
    result = call("import", log, "--out", "mine")
    assert result.code == 0, result.err
    assert "60 decimal commas" in result.out
    assert "ignored: note (no known signal)" in result.out
    assert "mine: 1 run" in result.out
    (run_id,) = load("mine").runs["run_id"]
    result = call("score", "mine", "--detector", "nonfinite_loss", "--detector", "zclip")
    assert result.code == 0, result.err
    assert run_id in result.out
    assert "imported runs have no label by experiment: alarms only, no score" in result.out
    entries = json.loads(call("score", "mine", "--detector", "nonfinite_loss", "--json").out)
    assert [(entry["run_id"], entry["first_alarm"], entry["label"]) for entry in entries] == [(run_id, 600, None)]


def test_import_as_json_with_a_map_and_labels(call, here, log):
    (here / "said.csv").write_text("file,outcome,failure_step\nrun.csv,failed,600\n", encoding="utf-8")
    result = call("import", log, "--out", "mine", "--map", "train/loss=lr", "--labels", "said.csv", "--json")
    (entry,) = json.loads(result.out)["runs"]
    assert entry["columns"] == {"train/loss": "lr"}
    assert entry["label"]["failure_step"] == 600
    assert entry == load("mine").manifest["imported"][0]


def test_what_was_blank_is_said(call, here):
    rows = "".join(f"{i},{3 if i < 9 else ''}\n" for i in range(20))
    (here / "run.csv").write_text(f"step,loss\n{rows}", encoding="utf-8")
    result = call("import", "run.csv", "--out", "mine")
    assert "no value in the last 11 rows, from run.csv, line 11 (step 9) on: NaN, 11 of loss" in result.out
    assert "--blank missing reads nothing" in result.out
    result = call("import", "run.csv", "--out", "other", "--blank", "missing")
    assert "not logged; --blank nan reads NaN" in result.out
    assert load("other").runs["last_step"].tolist() == [19]
    (entry,) = load("other").manifest["imported"]
    assert (entry["blanks"]["nan"], entry["blanks"]["missing"]) == ({}, {"loss": 11})


def test_a_log_that_is_refused_leaves_nothing(call, here, log):
    call("import", "nowhere.csv", "--out", "mine").refused("nowhere.csv: no such file or folder")
    call("import", log, "--out", "mine", "--format", "cvs").refused("did you mean 'csv'?")
    call("import", log, "--out", "mine", "--map", "loss").refused("COLUMN=SIGNAL")
    call("import", log, "--out", "mine", "--labels", "none.csv").refused("'none.csv' is not a file")
    call("import", log, "--out", "run.csv").refused("'run.csv' is a file")
    (here / "bad.csv").write_text("step,loss\n1,2\n2,two\n", encoding="utf-8")
    call("import", log, "bad.csv", "--out", "mine").refused("bad.csv, line 3: column 'loss': 'two' is not a number")
    assert sorted(path.name for path in here.iterdir()) == ["bad.csv", "run.csv"]


def test_what_imported_runs_are_not_for(call, here, log):
    assert call("import", log, "--out", "mine").code == 0
    (run_id,) = load("mine").runs["run_id"]
    plain = ("label", "leaderboard", "report", "audit", "equivalence", "quiz", "gallery")
    for words in (
        *((word, "mine") for word in plain),
        ("reproduce", "mine", run_id),
        ("release", "mine", "--out", "to"),
    ):
        call(*words).refused("imported runs have no label by experiment", "trainwreck score mine --detector NAME")
    call("score", "mine", "--detector", "zclip", "--profile", "minimal").refused("'minimal'", "allowed: full")
    call("score", "mine", "--detector", "zclip", "--track", "informed").refused("'informed'", "allowed: blind")
    call("score", "mine", "--detector", "zclip", "--alarms", "kept").refused("alarms: not allowed for imported runs")
    call("score", "mine", "--detector", "zclop").refused("did you mean 'zclip'?")
    call("export", "mine", "--to", "timeeval", "--out", "out").refused("holds imported runs")


def test_a_detector_that_crashes_on_a_log_is_told(call, here, log):
    assert call("import", log, "--out", "mine").code == 0
    (here / "mine.py").write_text(
        "class Mine:\n    def reset(self, context): pass\n    def update(self, row): return row['lr'] > 1\n",
        encoding="utf-8",
    )
    result = call("score", "mine", "--detector", "mine.py:Mine", "--json")
    assert result.code == 2
    assert json.loads(result.out)[0]["status"].startswith("crashed: TypeError")
    assert "detector mine.py:Mine: crashed: TypeError" in result.err


def test_export(call, data_set, here):
    runs = load(data_set).runs
    result = call("export", data_set, "--to", "trackio", "--out", "out")
    assert result.code == 0, result.err
    assert {path.name for path in (here / "out").iterdir()} == {"runs.csv", *(f"{run_id}.csv" for run_id in runs.index)}
    one = runs.index[0]
    facts = json.loads(call("export", data_set, one, "--to", "tensorboard", "--out", "events", "--json").out)
    assert facts == {"out": "events", "to": "tensorboard", "runs": {one: f"{one}/events.out.tfevents.0"}}
    back = call("import", "events", "--out", "back", "--json")
    (entry,) = json.loads(back.out)["runs"]
    trace, again = load(data_set).trace(one), load("back").trace(entry["run_id"])
    assert again["loss"].tobytes() == trace["loss"].tobytes()
    assert again["layer_grad_norm"].tobytes() == trace["layer_grad_norm"].tobytes()


def test_a_run_as_it_might_have_been_logged(call, here):
    runs = load("sample").runs
    kept = runs[(runs["scenario"] == "gradients_not_cleared") & (runs["kind"] == "failing")]["run_id"].tolist()
    written = json.loads(call("export", "sample", *kept, "--to", "logged", "--out", "logs", "--json").out)["runs"]
    assert list(written) == kept
    configs = json.loads((here / "logs" / "logging.json").read_text(encoding="utf-8"))
    for run_id, name in written.items():
        seen = trainwreck.diagnose("sample", run_id, profile="logged")
        blank = ("--blank", "missing") if configs[run_id]["not_finite"] == "blank" else ()
        (found,) = json.loads(call("diagnose", f"logs/{name}", *blank, "--json").out)
        assert {"run": run_id} | {name: found[name] for name in found if name != "run"} == seen.to_dict()


def test_what_cannot_be_exported_is_refused(call, data_set, here):
    call("export", "sample", "--to", "wandb").refused("Missing option '--out'")
    call("export", "sample", "--out", "out").refused("Missing option '--to'")
    call("export", data_set, "--to", "tensorbord", "--out", "out").refused("did you mean 'tensorboard'?")
    call("export", data_set, "r0", "--to", "trackio", "--out", "out").refused("run: 'r0' is not allowed")
    call("export", "nowhere", "--to", "trackio", "--out", "out").refused("'nowhere' is not a folder")
    (here / "out").mkdir()
    (here / "out" / "thesis").write_text("mine", encoding="utf-8")
    call("export", data_set, "--to", "trackio", "--out", "out").refused("'out' is not empty")
    assert sorted(path.name for path in here.rglob("*")) == ["out", "thesis"]
