"""What the public functions return, as a notebook shows it; and arguments that are wrong."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

import trainwreck
from trainwreck.dataset import with_settings
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.learning.arrays import PHASES

LONGEST, WIDEST = 30, 400  # lines that a notebook gets, characters of one
TINY = ("steps=24", "model.layers=2", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2")


@pytest.fixture(scope="module")
def data():
    return trainwreck.load("sample")


@pytest.fixture(scope="module")
def run(data):
    return data.trace(data.runs.query("kind == 'failing' and cause == 'nan_weight_spread'")["run_id"].iloc[0])


@pytest.fixture(scope="module")
def card(data):
    return trainwreck.score("nonfinite_loss", data)


def subject():
    """A model and a batch for the checks before a run."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3))
    return trainwreck.Preflight(model, torch.ones(2, 4), torch.tensor([0, 2]), shift=None)


def test_short_forms_are_short_and_say_what_it_is(data, run, card):
    wreck = trainwreck.run("mask_missing", *TINY, "evaluation.rows=4")
    found = {
        f"{len(data)} runs": data,
        f"run {run.run_id}: {len(run)} rows": run,
        "rows of": data.xy(profile="minimal"),
        "nonfinite_loss on": card,
        "onset at step": wreck,
        "runs are bitwise identical": trainwreck.diff(data, data),
        "nothing tells that a run will fail": trainwreck.audit(data),
        "200: ": trainwreck.catalogue(),
        "clip_too_loose, ": trainwreck.scenarios(),
        "zclip": trainwreck.detectors(),
        "Mechanism: ": trainwreck.show("high_lr"),
        "nonfinite_loss": trainwreck.leaderboard(data, ["nonfinite_loss"]),
        "68:\n  run r": card.alarms,
        "in-time recall": card.points["default"],
        "Outcomes of 44 runs: 16 cured, 16 failing, 6 healthy, 6 look-alike": card.outcomes,
        "profile full: RunLabels of": card.baseline,
        "python_supported: yes": trainwreck.doctor(),
        "something is wrong, since step": trainwreck.diagnose("sample", run.run_id),
        "13:\n  ": trainwreck.preflight(subject()),
    }
    for says, one in found.items():
        assert says in repr(one)
        assert len(repr(one).splitlines()) <= LONGEST
        assert max(map(len, repr(one).splitlines())) <= WIDEST
        assert type(one) is dict or "<" in one._repr_html_()
    assert trainwreck.catalogue().to_frame().set_index("id").loc["high_lr", "family"] == "optimisation"
    assert "<table" in trainwreck.catalogue()._repr_html_()
    assert "Mechanism" in trainwreck.show("high_lr")._repr_html_()
    assert "<img" in wreck._repr_html_()
    assert "<img" in run._repr_html_()
    assert "<table" in card._repr_html_()
    assert "<table" in trainwreck.leaderboard(data, ["zclip"])._repr_html_()
    assert "<table" in data._repr_html_()
    assert all(kind in data._repr_html_() for kind in set(data.runs["kind"]))


def test_a_trace_as_a_table(data, run):
    table = run.to_pandas()
    assert table.index.name == "step"
    np.testing.assert_array_equal(table["loss"], run["loss"])
    np.testing.assert_array_equal(table["layer_grad_norm[1]"], run["layer_grad_norm"][:, 1])
    assert {name.partition("[")[0] for name in table.columns} == {signal.name for signal in SIGNALS}


def test_a_run_of_a_data_set_knows_its_label_and_can_be_copied(data, run):
    assert run.label["cause"] == "nan_weight_spread"
    again = pickle.loads(pickle.dumps(run))
    assert type(again) is Trace
    np.testing.assert_array_equal(again["loss"], run["loss"])


def test_an_unknown_signal_is_one_line(run):
    with pytest.raises(trainwreck.InputError, match="signal: 'los' is not allowed; did you mean 'loss'"):
        run["los"]


def test_a_picture_has_the_twin_the_steps_and_the_alarms(run, card):
    figure = trainwreck.figure(run, alarms=card)
    *panels, row = figure.axes
    labels = panels[0].get_legend_handles_labels()[1]
    assert {"faulty", "twin", "cured"} <= set(labels)
    assert any(f"= {int(run.label['onset_step'])}" in label for label in labels)
    (alarm,) = [one.first_alarm for one in card.alarms if one.run_id == run.run_id]
    assert row.collections[0].get_offsets()[:, 0].tolist() == [alarm]
    assert [label.get_text() for label in row.get_yticklabels()] == ["nonfinite_loss"]
    by_hand = trainwreck.figure(run, alarms={"mine": 7}, signals=["lr"])
    assert len(by_hand.axes) == 2
    with pytest.raises(trainwreck.InputError, match="was not shown run"):
        trainwreck.figure(Trace("other", run.signals, run.evaluated), alarms=card)
    with pytest.raises(trainwreck.InputError, match="run: int is not allowed"):
        trainwreck.figure(3)
    with pytest.raises(trainwreck.InputError, match="alarms: int is not allowed"):
        trainwreck.figure(run, alarms=3)
    assert f"point of no return = {int(run.label['no_return_step'])}" in labels
    assert any(label.startswith("cure = ") for label in labels)


def test_a_log_and_a_look_alike_are_not_called_faulty(data, tmp_path):
    (tmp_path / "log.csv").write_text("step,train_loss\n0,4.0\n1,3.5\n2,3.0\n")
    mine = trainwreck.import_logs(tmp_path / "log.csv", out=tmp_path / "mine", mapping={"train_loss": "loss"})
    assert repr(mine).endswith("1 run, imported")
    log = mine.trace(mine.runs["run_id"].iloc[0])
    assert "nan" not in repr(log)
    harmless = data.trace(data.runs.query("kind == 'look-alike'")["run_id"].iloc[0])
    for one, called in ((log, "run"), (harmless, "look-alike")):
        figure = trainwreck.figure(one, signals=["loss"])
        assert figure.get_suptitle() == one.title
        labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert called in labels
        assert "faulty" not in labels


def test_two_scorecards_are_compared(data, card):
    other = trainwreck.score("zclip", data)
    found = trainwreck.compare(card, other)
    assert found["detector"].tolist() == ["zclip"]
    assert found["ahead_0.05"].item() == card.in_time_recall.value - other.in_time_recall.value
    pd.testing.assert_frame_equal(found, trainwreck.compare("nonfinite_loss", "zclip", data))
    elsewhere = trainwreck.score("zclip", data, profile="minimal")
    for call, why in (
        (lambda: trainwreck.compare(card, elsewhere), "profile 'full' and 'minimal'"),
        (lambda: trainwreck.compare(card, other, data), "data: not allowed beside scorecards"),
        (lambda: trainwreck.compare("zclip", "nonfinite_loss"), "data: missing"),
        (lambda: trainwreck.compare(card, "zclip"), "not allowed beside a scorecard"),
    ):
        with pytest.raises(trainwreck.InputError, match=why):
            call()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: trainwreck.load(3), "path: 3 is not allowed; allowed: a data set, its folder, or 'sample'"),
        (trainwreck.load, "load: missing a required argument: 'path'"),
        (lambda: trainwreck.score("zclip", 3), "dataset: 3 is not allowed; allowed: a data set"),
        (lambda: trainwreck.score("zclip", "sample", k="x"), "k: 'x' is not allowed; allowed: a whole number"),
        (lambda: trainwreck.score("zclip", "sample", seeds=0), "seeds: 0 is not allowed; allowed: 1 or more"),
        (lambda: trainwreck.score("zclip", "sample", profil="full"), "did you mean 'profile'"),
        (lambda: trainwreck.leaderboard("sample", "zclip"), "detectors: 'zclip' is not allowed; allowed: a list"),
        (lambda: trainwreck.leaderboard("sample", workers=2.5), "workers: 2.5 is not allowed; allowed: a whole number"),
        (lambda: trainwreck.generate("demo", out="made", workers=0), "workers: 0 is not allowed; allowed: 1 or more"),
        (lambda: trainwreck.generate("demo"), "missing a required argument: 'out'"),
        (lambda: trainwreck.run("high_lr", seed="x"), "seed: 'x' is not allowed; allowed: a whole number"),
        (lambda: trainwreck.run("high_lr", seed=-1), "seed: -1 is not allowed; allowed: 0 or more"),
        (lambda: trainwreck.load("sample").xy(window=0), "window: 0 is not allowed; allowed: 1 or more"),
        (lambda: trainwreck.load("sample").frame(profiles="full"), "did you mean 'profile'"),
    ],
)
def test_wrong_arguments_are_one_line(call, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(trainwreck.InputError, match=why) as found:
        call()
    assert "\n" not in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_functions_are_found_by_pickle():
    assert pickle.loads(pickle.dumps(trainwreck.score)) is trainwreck.score


def test_a_window_has_the_rows_before(data):
    one, three = data.xy("test", "minimal"), data.xy("test", "minimal", window=3)
    assert three.columns == ("loss@-2", "lr@-2", "loss@-1", "lr@-1", "loss", "lr")
    cube = three.X.reshape(len(three), 3, 2)
    np.testing.assert_array_equal(cube[:, -1], one.X)
    first = np.flatnonzero(np.diff(one.run, prepend=-1))
    assert np.isnan(cube[first, :2]).all()
    later = np.setdiff1d(np.arange(len(one)), first)
    np.testing.assert_array_equal(cube[later, 1], one.X[later - 1])


def test_a_row_says_where_in_the_run_it_lies(data):
    table = data.frame(profile="full", kinds=["failing", "cured", "healthy"])
    onset = table["run_id"].astype(str).map(data.runs["onset_step"])
    visible = table["run_id"].astype(str).map(data.runs["visible_step"])
    assert set(table["phase"]) <= set(PHASES)
    failing = table["kind"] == "failing"
    assert ((table["phase"] == "before onset") == (table["step"] < onset))[failing].all()
    assert ((table["phase"] == "visible") == (table["step"] >= visible))[failing].all()
    assert (table.loc[table["kind"] == "healthy", "phase"] == "no fault").all()
    assert "cured" in set(table.loc[table["kind"] == "cured", "phase"])
    assert (table["y"] == table["phase"].isin(["under fault", "visible"])).all()


def test_what_a_sweep_varies_is_a_column(data):
    rows = [
        {"spec": {"overrides": ["optimizer.lr=0.01", "fault.factor=3", "steps=100"]}, "context": {"lr": 0.01}},
        {"spec": {"overrides": ["optimizer.lr=0.02", "fault.factor=3", "steps=200"]}, "context": {"lr": 0.02}},
        {"spec": {"overrides": ["optimizer.lr=0.02", "steps=200"]}, "context": {"lr": 0.02}},
    ]
    runs = pd.DataFrame(
        {
            "spec": [json.dumps(row["spec"]) for row in rows],
            "context": [json.dumps({"optimizer": row["context"]}) for row in rows],
            "planned_steps": [100, 200, 200],
        }
    )
    found = with_settings(runs)
    assert found["optimizer.lr"].tolist() == [0.01, 0.02, 0.02]
    assert found["steps"].tolist() == [100, 200, 200]
    assert "fault.factor" not in found  # one value alone
    assert list(data.runs.columns)[-1] == "file"  # of a plan without a sweep
