"""A run trained again is bitwise the recorded run, and a changed record is detected."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_manifest, write_runs, write_telemetry
from trainwreck.evaluation.dataset.diff import compare, compare_data_sets
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.datasets.generate import generate
from trainwreck.scenarios.datasets.reproduce import reproduce
from trainwreck.scenarios.spec.run_spec import family_of, unique

TINY = ["steps=24", "model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4"]


@pytest.fixture(scope="module")
def specs():
    return unique([s for name in ("mask_missing", "benign_single_spike") for s in family_of(name, [0], overrides=TINY)])


@pytest.fixture(scope="module")
def data_set(specs, tmp_path_factory):
    return generate(specs, tmp_path_factory.mktemp("data") / "set").path


@pytest.fixture
def copied(data_set, tmp_path):
    return shutil.copytree(data_set, tmp_path / "copied")


def rewrite(folder, change):
    """Every trace through `change`, with new checksums: a forgery that loads."""
    data = load(folder)
    facts = {k: v for k, v in data.manifest.items() if k not in ("files", "format", "schema_version")}
    for name, rows in data.runs.groupby("file"):
        write_telemetry(folder, name, [change(data.trace(run_id)) for run_id in rows["run_id"]])
    write_manifest(folder, facts)


def with_value(trace, signal, step, value):
    signals = {name: np.array(values) for name, values in trace.signals.items()}
    signals[signal][step] = value(signals[signal][step])
    return Trace(trace.run_id, signals, np.array(trace.evaluated))


def next_float(value):
    return np.nextafter(value, np.float32(np.inf), dtype=np.float32)


def test_every_run_is_reproduced_to_the_bit(data_set, specs):
    for spec in specs:
        found = reproduce(data_set, spec.run_id)
        assert found.identical, found.text()
        assert found.rows == 24
        assert found.changed == ()
        assert found.text() == f"{spec.run_id}: 24 rows, bitwise identical"


@pytest.mark.parametrize("signal", ["loss", "layer_grad_norm", "tokens_per_second", "head_entropy"])
def test_one_bit_of_one_signal_is_found(signal, copied, data_set, specs):
    victim = specs[0].run_id
    rewrite(copied, lambda t: with_value(t, signal, 13, next_float) if t.run_id == victim else t)
    found = reproduce(copied, victim)
    assert not found.identical
    assert (found.step, found.signal) == (13, signal)
    forged, true = (load(folder).trace(victim)[signal][13].astype(np.float64) for folder in (copied, data_set))
    assert found.difference == np.max(np.abs(forged - true)) > 0
    assert f"differs from step 13 on, first in {signal}" in found.text()
    assert reproduce(copied, specs[1].run_id).identical


def test_rows_cut_off_are_found(copied, specs):
    def shorter(trace):
        return Trace(trace.run_id, {k: v[:15] for k, v in trace.signals.items()}, trace.evaluated[:15])

    rewrite(copied, shorter)
    with pytest.raises(InputError, match="last_step 23 contradicts its telemetry, which has 15 rows"):
        reproduce(copied, specs[0].run_id)


def test_a_label_that_names_another_run_is_refused(copied, specs):
    rows = pq.read_table(copied / "runs.parquet").to_pylist()
    spec = json.loads(rows[0]["spec"])

    def edit(**facts):
        rows[0]["spec"] = json.dumps(spec | facts)
        write_runs(copied, rows)
        write_manifest(copied, {"environment": {}})

    edit(seed=5)
    with pytest.raises(InputError, match=f"{specs[0].run_id}: seed 0 contradicts what the run was made from"):
        reproduce(copied, specs[0].run_id)
    edit(overrides=[*spec["overrides"], "optimizer.lr=0.5"])
    with pytest.raises(InputError, match=rf"{specs[0].run_id}: spec .* contradicts .*bundles"):
        reproduce(copied, specs[0].run_id)
    shutil.rmtree(copied / "bundles")
    with pytest.raises(InputError, match=f"run {specs[0].run_id}: its scenario has changed since"):
        reproduce(copied, specs[0].run_id)


def test_another_environment_is_told_where_numbers_differ(copied, specs):
    manifest = json.loads((copied / "manifest.json").read_text(encoding="utf-8"))
    manifest["environment"]["processor"] = "abacus"
    (copied / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    rewrite(copied, lambda t: with_value(t, "loss", 0, next_float))
    found = reproduce(copied, specs[0].run_id)
    assert found.changed == ("processor",)
    assert "not as it was: processor" in found.text()


def test_an_unknown_run_is_refused(data_set):
    with pytest.raises(InputError, match="run: 'r0' is not allowed"):
        reproduce(data_set, "r0")


@pytest.fixture
def trace(data_set, specs):
    return load(data_set).trace(specs[0].run_id)


def test_compare_takes_the_earliest_step_of_all_signals(trace):
    other = with_value(with_value(trace, "loss", 9, next_float), "position_loss", 4, lambda v: v + 0.5)
    found = compare(trace, other)
    assert (found.step, found.signal) == (4, "position_loss")
    assert found.difference == pytest.approx(0.5, rel=1e-6)
    assert found.loss_difference == float(next_float(trace["loss"][9]) - trace["loss"][9]) > 0
    assert found.final_difference == 0.0
    assert found == compare(other, trace)


def test_nan_is_itself_and_not_a_number(trace):
    nan = with_value(trace, "loss", 3, lambda value: np.nan)
    assert compare(nan, nan).identical
    for pair in ((trace, nan), (nan, trace)):
        found = compare(*pair)
        assert (found.identical, found.step, found.signal, found.difference) == (False, 3, "loss", None)
        assert "first in loss, finite in one of the two" in found.text()
        assert "training loss apart by at most no number of nats" in found.text()
        json.dumps(found.to_dict(), allow_nan=False)


def test_the_last_loss_is_compared_in_nats(trace):
    last = np.flatnonzero(trace.evaluated)[-1]
    other = with_value(trace, "validation_loss", last, lambda v: v + np.float32(0.25))
    found = compare(trace, other)
    assert found.final_difference == pytest.approx(0.25, abs=1e-6)
    assert compare(other, trace).final_difference == pytest.approx(-0.25, abs=1e-6)
    assert "last validation loss by +0.25 nats" in found.text()


def test_two_data_sets_are_compared_run_by_run(copied, data_set, specs):
    assert all(c.identical and not c.labels for c in compare_data_sets(load(data_set), load(copied)))
    victim = specs[1].run_id
    rewrite(copied, lambda t: with_value(t, "loss", 7, lambda v: v + 0.5) if t.run_id == victim else t)
    apart = {c.run_id: c for c in compare_data_sets(load(data_set), load(copied)) if not c.identical}
    assert list(apart) == [victim]
    assert (apart[victim].step, apart[victim].signal) == (7, "loss")
    assert apart[victim].loss_difference == pytest.approx(0.5, rel=1e-5)


def test_labels_that_differ_are_named(copied, data_set, specs):
    other = load(copied)
    kind = other.run(specs[0].run_id)["kind"]
    other.runs.loc[specs[0].run_id, "kind"] = "latent" if kind != "latent" else "failing"
    found = {c.run_id: c.labels for c in compare_data_sets(load(data_set), other) if c.labels}
    assert found == {specs[0].run_id: ("kind",)}


def test_data_sets_without_a_common_run_are_refused(data_set, tmp_path):
    other = generate(family_of("mask_missing", [1], overrides=TINY), tmp_path / "other").path
    with pytest.raises(InputError, match="have no run in common"):
        list(compare_data_sets(load(data_set), load(other)))
