"""A data set as arrays: what a profile shows, the target of each row, and groups that keep twin sets together."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold, cross_val_score

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import RunKind
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.learning.arrays import arrays
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import rows

KINDS = [kind.value for kind in RunKind if kind is not RunKind.IMPORTED]


@pytest.fixture(scope="module")
def sample():
    return load("sample")


def of_run(found, run_id):
    """Which rows are a run's."""
    return found.runs["run_id"].to_numpy()[found.run] == run_id


@pytest.mark.parametrize("profile", ["full", "common", "standard", "minimal", "filtered"])
def test_rows_are_those_that_the_profile_shows(sample, profile):
    found = arrays(sample, profile=profile)
    assert found.X.dtype == np.float32
    run_id = found.runs.index[-1]
    shown = list(observe(rows(sample.trace(run_id)), profile))
    mine = of_run(found, run_id)
    assert found.step[mine].tolist() == [row["step"] for row in shown]
    for i, name in enumerate(found.columns):
        expected = np.array([row[name] for row in shown], dtype=np.float32)
        np.testing.assert_array_equal(found.X[mine, i], expected)


def test_columns_are_what_the_profile_shows_and_some_row_has(sample):
    assert arrays(sample, profile="minimal").columns == ("loss", "lr")
    full = arrays(sample)
    assert "fresh_loss" not in full.columns  # no run of the sample has a second held-out set
    assert not np.isnan(full.X).all(axis=0).any()
    again = arrays(sample, "calibration", signals=full.columns)
    assert again.columns == full.columns


def test_lists_are_a_column_an_entry_and_nan_where_a_run_has_fewer(sample):
    found = arrays(sample, signals=("loss", "layer_grad_norm"), kinds=KINDS)
    widths = {run_id: sample.trace(run_id)["layer_grad_norm"].shape[1] for run_id in found.runs.index}
    assert found.columns == ("loss", *(f"layer_grad_norm[{i}]" for i in range(max(widths.values()))))
    for run_id, width in widths.items():
        mine = found.X[of_run(found, run_id)]
        np.testing.assert_array_equal(mine[:, 1 : 1 + width], sample.trace(run_id)["layer_grad_norm"])
        assert np.isnan(mine[:, 1 + width :]).all()


def test_the_target_is_one_under_the_fault(data_set):
    found = arrays(load(data_set), kinds=KINDS, signals=["loss"])
    for i, (_, run) in enumerate(found.runs.iterrows()):
        mine = found.run == i
        step = found.step[mine]
        first = np.inf if pd.isna(run["onset_step"]) or run["kind"] == "look-alike" else run["onset_step"]
        last = run["cure_step"] if run["kind"] == "cured" else np.inf
        assert found.y[mine].tolist() == ((step >= first) & (step < last)).astype(int).tolist()
    assert {kind for kind, y in zip(found.runs["kind"].to_numpy()[found.run], found.y, strict=True) if y} == {
        "failing", "latent", "cured",
    }  # fmt: skip


def test_a_run_whose_fault_is_not_shown_is_left_out_from_the_onset_on(data_set):
    runs = data_set.runs.assign(kind=data_set.runs["kind"].replace("latent", "not shown"))
    found = arrays(DataSet(data_set.path, data_set.manifest, runs), kinds=["not shown"], signals=["loss"])
    assert len(found.runs) == 3
    for i, onset in enumerate(found.runs["onset_step"]):
        assert found.step[found.run == i].tolist() == list(range(int(onset)))
    assert not found.y.any()


def test_of_a_cured_run_of_two_causes_rows_between_the_onsets_are_left_out(data_set):
    cured = data_set.runs["kind"] == "cured"
    onset, cure = (data_set.runs.loc[cured, name].astype(int) for name in ("onset_step", "cure_step"))
    later = onset + (cure - onset) // 2
    both = [json.dumps({"high_lr": int(a), "label_noise": int(b)}) for a, b in zip(onset, later, strict=True)]
    runs = data_set.runs.copy()
    runs.loc[cured, "causes"] = both
    found = arrays(DataSet(data_set.path, data_set.manifest, runs), kinds=["cured"], signals=["loss"])
    assert len(found.runs) == cured.sum() > 0
    for i, (first, second, last) in enumerate(zip(onset, later, cure, strict=True)):
        steps, y = found.step[found.run == i], found.y[found.run == i]
        assert steps.tolist() == [*range(first), *range(second, found.runs["last_step"].iloc[i] + 1)]
        assert first < second < last
        assert y.tolist() == ((steps >= second) & (steps < last)).astype(int).tolist()


def test_by_visible_steps_the_rows_between_are_left_out(sample):
    onset, visible = arrays(sample), arrays(sample, label="visible")
    late = sample.runs[(sample.runs["kind"] == "failing") & (sample.runs["visible_step"] > sample.runs["onset_step"])]
    assert len(late)
    for run_id, run in late.iterrows():
        at = json.loads(run["visible_profiles"])["full"]
        steps, y = visible.step[of_run(visible, run_id)], visible.y[of_run(visible, run_id)]
        assert not ((steps >= run["onset_step"]) & (steps < at)).any()
        assert y.tolist() == (steps >= at).astype(int).tolist()
        assert of_run(visible, run_id).sum() == of_run(onset, run_id).sum() - (at - run["onset_step"])


def test_a_group_is_a_twin_set_whatever_part_is_asked_for(sample):
    everything = arrays(sample, kinds=KINDS)
    runs = everything.runs
    of = {run_id: int(everything.groups[of_run(everything, run_id)][0]) for run_id in runs.index}
    for run_id, run in runs.iterrows():
        assert run["twin_id"] in ("", None) or of[run_id] == of[run["twin_id"]]
    assert len(set(of.values())) == len(runs.groupby(["base", "seed"]))
    part = arrays(sample, "test", kinds=["failing"])
    assert {run_id: int(part.groups[of_run(part, run_id)][0]) for run_id in part.runs.index}.items() <= of.items()


def test_a_classifier_learns_from_them_across_twin_sets(sample):
    X, y, groups = arrays(sample, profile="standard")
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    found = cross_val_score(model, X, y, groups=groups, cv=GroupKFold(4), scoring="roc_auc")
    assert found.mean() > 0.6


def test_the_table_has_the_same_rows(sample):
    found = arrays(sample, profile="minimal")
    table = found.to_frame()
    np.testing.assert_array_equal(table[list(found.columns)].to_numpy(), found.X)
    assert table["y"].tolist() == found.y.tolist()
    assert (table["run_id"].astype(str) == found.runs["run_id"].to_numpy()[found.run]).all()
    assert (table["cause"].astype(str) == found.runs["cause"].to_numpy()[found.run]).all()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"split": "private"}, "split: 'private' is not allowed; allowed: calibration, test, train"),
        ({"profile": "ful"}, "profile: 'ful' is not allowed; did you mean 'full'"),
        ({"label": "s"}, "label: 's' is not allowed; allowed: onset, visible"),
        ({"signals": ["los"]}, "signals: 'los' is not allowed; did you mean 'loss'"),
        ({"signals": ["grad_norm"], "profile": "minimal"}, "signals: 'grad_norm' is not allowed; allowed: loss, lr"),
        ({"signals": []}, "signals: none is not allowed"),
        ({"signals": ["loss", "loss"]}, "signals: loss, loss is not allowed"),
        ({"kinds": ["broken"]}, "kinds: 'broken' is not allowed"),
        ({"kinds": ["imported"]}, "kinds: 'imported' is not allowed"),
        ({"kinds": ["failing"], "split": "calibration"}, "kinds: no failing in split calibration"),
        ({"k": 0}, "k: 0 is not allowed"),
    ],
)
def test_what_is_not_there_is_refused(sample, asked, why):
    with pytest.raises(InputError, match=why):
        arrays(sample, **asked)
