"""A plan becomes the same bytes however it is trained: alone or in bundles, resumed, by one worker or two."""

import dataclasses
import os
import shutil
import signal
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from joblib.externals.loky import get_reusable_executor

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.errors import InputError, WorkerLostError
from trainwreck.evaluation.files import read_json, sha256, write_json
from trainwreck.scenarios.datasets.engines import Local
from trainwreck.scenarios.datasets.generate import PlannedBundle, bundles, generate, train_bundle
from trainwreck.scenarios.datasets.plans import resolve
from trainwreck.scenarios.datasets.resources import needed
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of, unique
from trainwreck.scenarios.training.backend import Backend
from trainwreck.scenarios.training.bundle import BUNDLE_ELEMENTS
from trainwreck.scenarios.training.loop import train

MODULE = import_module("trainwreck.scenarios.datasets.generate")
TINY = ("model.width=16", "model.heads=2", "model.context=16", "data.rows=2", "evaluation.rows=4")


def plan(lengths=(22, 26, 30), seed=0) -> list[RunSpec]:
    """Four runs a length: two scenarios that share a twin."""
    return unique(
        spec
        for steps in lengths
        for name in ("mask_missing", "benign_clean_resume")
        for spec in family_of(name, [seed], overrides=[*TINY, f"steps={steps}"])
    )


@pytest.fixture(scope="module")
def specs():
    """Twelve runs in six bundles: for each length the faulty ones and the healthy one."""
    return plan()


@pytest.fixture(scope="module")
def undisturbed(specs, tmp_path_factory):
    return generate(specs, tmp_path_factory.mktemp("data") / "undisturbed")


@pytest.fixture
def trained(monkeypatch):
    """Names of the bundles that are trained from here on, in this process."""
    names = []

    def noted(bundle: PlannedBundle, out: Path, backend: Backend, width: int) -> int:
        names.append(bundle.name)
        return train_bundle(bundle, out, backend, width)

    monkeypatch.setattr(MODULE, "train_bundle", noted)
    return names


@pytest.fixture
def pool():
    """No worker outlives the test."""
    yield
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_run_of_the_plan_is_there_once_in_order(specs, undisturbed):
    assert undisturbed.runs["run_id"].tolist() == [spec.run_id for spec in specs]
    assert undisturbed.runs.index.is_unique
    for spec in specs:
        trace = undisturbed.trace(spec.run_id)
        assert trace.run_id == spec.run_id
        assert len(trace) == spec.setup.steps


def test_the_labels_are_the_plans(specs, undisturbed):
    for spec in specs:
        row = undisturbed.run(spec.run_id)
        faulty = spec.role is not Role.TWIN
        assert row["scenario"] == (spec.scenario if faulty else "")
        assert row["cause"] == (spec.scenario if faulty and not spec.entry.look_alike else "")
        assert row["split"] == spec.split.value
        assert row["seed"] == spec.seed
        assert row["planned_steps"] == spec.setup.steps == row["last_step"] + 1
        assert row["twin_id"] == (spec.twin.run_id if faulty else "")
        assert (None if np.isnan(row["onset_step"]) else row["onset_step"]) == spec.onset
        assert (None if np.isnan(row["cure_step"]) else row["cure_step"]) == spec.cure_step


def test_telemetry_is_the_twins_until_the_onset(specs, undisturbed):
    for spec in specs:
        if spec.onset is not None:
            run, twin = undisturbed.trace(spec.run_id), undisturbed.trace(spec.twin.run_id)
            same = [np.array_equal(run[k][: spec.onset], twin[k][: spec.onset], equal_nan=True) for k in run.signals]
            assert all(same)


def test_the_manifest_tells_the_files_as_they_are(undisturbed):
    for name, facts in undisturbed.manifest["files"].items():
        path = undisturbed.path / name
        assert facts == {"sha256": sha256(path), "bytes": path.stat().st_size}
    telemetry = {f"telemetry/{path.name}" for path in (undisturbed.path / "telemetry").iterdir()}
    assert set(undisturbed.manifest["files"]) == {"runs.parquet", "catalogue.json", *telemetry}
    assert {"trainwreck", "revision", "packages", "processor"} <= set(undisturbed.manifest["environment"])


def test_bundles_hold_every_run_once_and_only_runs_of_one_shape(specs, monkeypatch):
    for room in (BUNDLE_ELEMENTS["cpu"], 2000):
        monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", room)
        cut = bundles(specs)
        assert sorted(s.run_id for b in cut for s in b.specs) == sorted(s.run_id for s in specs)
        assert all(len({(s.setup.steps, s.setup.data.rows) for s in b.specs}) == 1 for b in cut)
        assert [b.cost for b in cut] == sorted((b.cost for b in cut), reverse=True)
        assert [b.name for b in bundles(specs[::-1])] == [b.name for b in cut]
    assert len(cut) > 3


def test_bundles_are_as_wide_as_what_kernels_step_as_one(specs, monkeypatch):
    model, rows = specs[0].setup.model, specs[0].setup.data.rows
    room = rows * model.context * model.width
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", 2 * room)
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpp", 3 * room)
    same = [dataclasses.replace(specs[0], seed=seed) for seed in range(6)]
    assert [len(bundle.specs) for bundle in bundles(same)] == [2, 2, 2]
    assert [len(bundle.specs) for bundle in bundles(same, Backend("cpu", "cpp"))] == [3, 3]


def test_on_a_gpu_a_twin_is_in_the_bundle_of_its_faulty_run(specs):
    """There the width of a bundle changes last bits, and a twin is the same run until the onset."""
    cut = bundles(specs, Backend("cuda", "triton"))
    bundle_of = {spec.run_id: bundle.name for bundle in cut for spec in bundle.specs}
    faulty = [spec for spec in specs if spec.role is Role.FAULTY]
    assert faulty
    assert all(bundle_of[spec.run_id] == bundle_of[spec.twin.run_id] for spec in faulty)
    apart = {spec.run_id: bundle.name for bundle in bundles(specs) for spec in bundle.specs}
    assert all(apart[spec.run_id] != apart[spec.twin.run_id] for spec in faulty)


def test_a_runs_numbers_do_not_depend_on_its_bundle(specs, undisturbed):
    for spec in (specs[0], specs[5], specs[-1]):
        alone = train([spec.job()])[0].trace
        bundled = undisturbed.trace(spec.run_id)
        assert all(np.array_equal(alone[k], bundled[k], equal_nan=True) for k in bundled.signals)


def test_other_bundles_are_the_same_runs(specs, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setitem(BUNDLE_ELEMENTS, "cpu", 600)
    other = generate(specs, tmp_path / "out")
    assert len(other.manifest["files"]) > len(undisturbed.manifest["files"])
    label = [name for name in other.runs.columns if name != "file"]
    assert other.runs[label].equals(undisturbed.runs[label])
    for run_id in other.runs["run_id"]:
        a, b = other.trace(run_id), undisturbed.trace(run_id)
        assert all(np.array_equal(a[k], b[k], equal_nan=True) for k in a.signals)


@pytest.mark.usefixtures("pool")
def test_two_workers_write_what_one_writes(specs, undisturbed, tmp_path):
    assert generate(specs, tmp_path / "out", workers=2).manifest["files"] == undisturbed.manifest["files"]


def test_a_second_call_trains_nothing(specs, undisturbed, trained):
    before = content(undisturbed.path)
    generate(specs, undisturbed.path)
    assert trained == []
    assert content(undisturbed.path) == before


@pytest.mark.parametrize(("impl", "copied"), [("reference", True), ("cpp", False)])
def test_bundles_of_the_same_backend_are_reused_and_no_others(impl, copied, specs, undisturbed, trained, tmp_path):
    shutil.copytree(undisturbed.path, tmp_path / "before")
    plan = read_json(tmp_path / "before" / "plan.json")
    write_json(tmp_path / "before" / "plan.json", plan | {"backend": {"device": "cpu", "impl": impl}})
    made = generate(specs, tmp_path / "out", reuse=tmp_path)
    assert made.manifest["files"] == undisturbed.manifest["files"]
    assert trained == ([] if copied else [bundle.name for bundle in bundles(specs)])


def test_a_call_after_an_interrupt_trains_what_is_left(specs, undisturbed, trained, tmp_path, monkeypatch):
    out, calls = tmp_path / "out", []

    def interrupted(jobs, **where):
        calls.append(jobs)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(jobs, **where)

    monkeypatch.setattr(MODULE, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(specs, out)
    assert trained == [bundle.name for bundle in bundles(specs)[:2]]
    with pytest.raises(InputError, match="not finished"):
        load(out)
    assert [path.stem for path in (out / "bundles").iterdir()] == trained[:1]
    trained.clear()
    assert generate(specs, out).manifest["files"] == undisturbed.manifest["files"]
    assert trained == [bundle.name for bundle in bundles(specs)[1:]]


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("where", "harm"),
    [
        ("telemetry/{}.parquet", cut_short),
        ("telemetry/{}.parquet", Path.unlink),
        ("bundles/{}.json", Path.unlink),
    ],
)
def test_half_a_bundle_is_no_bundle(where, harm, specs, undisturbed, trained, tmp_path):
    out = tmp_path / "out"
    generate(specs, out)
    trained.clear()
    victim = bundles(specs)[1].name
    harm(out / where.format(victim))
    for name in ("manifest.json", "runs.parquet"):
        (out / name).unlink()
    (out / "telemetry" / ".tmp-left").write_bytes(b"half")
    (out / "bundles" / ".tmp-left").write_bytes(b"half")
    assert generate(specs, out).manifest["files"] == undisturbed.manifest["files"]
    assert trained == [victim]


@pytest.mark.parametrize("failing", ["write_telemetry", "write_json", "write_runs", "write_manifest"])
def test_a_failure_at_any_file_leaves_no_data_set_and_goes_on(failing, specs, undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "out"
    kept = getattr(MODULE, failing)

    def fail(*details, **named):
        if failing == "write_json" and details[0].name == "plan.json":
            return kept(*details, **named)
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(MODULE, failing, fail)
        with pytest.raises(OSError, match="no space"):
            generate(specs, out)
    assert not (out / "manifest.json").exists()
    assert generate(specs, out).manifest["files"] == undisturbed.manifest["files"]


@pytest.mark.usefixtures("pool")
def test_a_worker_that_dies_takes_only_its_bundle_with_it(specs, undisturbed, tmp_path, monkeypatch):
    out, victim = tmp_path / "out", bundles(specs)[-1].name
    part, number = "bundles", signal.SIGKILL

    def dying(bundle, folder, backend, width):  # a local function travels to the worker as it is
        if bundle.name == victim:
            os.kill(os.getpid(), number)
        return train_bundle(bundle, folder, backend, width)

    with monkeypatch.context() as patched:
        patched.setattr(MODULE, "train_bundle", dying)
        patched.setattr("trainwreck.scenarios.datasets.engines.dispatch.TRIES", 1)
        with pytest.raises(WorkerLostError, match=r"^1 of 6 bundles failed 1 times: b[^\n]* goes on from here$"):
            generate(specs, out, workers=2)
    assert not (out / part / f"{victim}.json").exists()
    assert not (out / "manifest.json").exists()
    assert generate(specs, out).manifest["files"] == undisturbed.manifest["files"]


def test_a_bundle_that_is_short_of_memory_goes_on_in_halves_and_ends_the_same(
    specs, undisturbed, trained, tmp_path, monkeypatch
):
    def short(jobs, **where):
        if len(jobs) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return train(jobs, **where)

    monkeypatch.setattr(MODULE, "train", short)
    assert generate(specs, tmp_path / "out").manifest["files"] == undisturbed.manifest["files"]
    assert len(trained) > len(bundles(specs))  # some were tried again


def test_memory_decides_how_many_are_trained_side_by_side_and_nothing_else(specs, undisturbed, tmp_path, monkeypatch):
    widths = []

    def noted(jobs, **where):
        widths.append(len(jobs))
        return train(jobs, **where)

    monkeypatch.setattr(MODULE, "train", noted)
    room = max(needed([spec.setup for spec in bundle.specs], 1) for bundle in bundles(specs))
    found = generate(specs, tmp_path / "out", engine=Local(1, memory=room))
    assert set(widths) == {1}
    assert found.manifest["files"] == undisturbed.manifest["files"]


def test_a_folder_that_workers_do_not_share_is_told(specs, tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "train_bundle", lambda bundle, out, backend, width: bundle.work)
    monkeypatch.setattr(MODULE, "SHARED", 0.0)
    with pytest.raises(InputError, match=r"^out: '[^\n]*out' has no bundle b\w+, which[^\n]*every machine[^\n]*$"):
        generate(specs, tmp_path / "out")


def test_too_little_memory_for_one_run_is_told_before_anything_is_trained(specs, trained, tmp_path):
    with pytest.raises(InputError, match=r"^memory: 0\.05 GiB a worker is not allowed[^\n]*$"):
        generate(specs, tmp_path / "out", engine=Local(1, memory=2**30 // 20))
    assert trained == []
    assert not (tmp_path / "out").exists()


def test_progress_counts_bundles_and_run_steps(specs, tmp_path):
    reports = []
    generate(specs, tmp_path / "out", progress=lambda *counts: reports.append(counts))
    total = sum(spec.setup.steps for spec in specs)
    assert reports[0] == (0, 6, 0, total, None)
    assert reports[-1] == (6, 6, total, total, 0.0)
    assert [counts[:4] for counts in reports] == sorted(counts[:4] for counts in reports)
    assert all(counts[4] > 0 for counts in reports[1:-1])


@pytest.mark.parametrize("changed", [{"lengths": (22, 26)}, {"seed": 1}], ids=str)
def test_another_plan_is_refused_and_nothing_changes(changed, undisturbed):
    before = content(undisturbed.path)
    with pytest.raises(InputError, match="holds another plan"):
        generate(plan(**changed), undisturbed.path)
    assert content(undisturbed.path) == before


def test_a_folder_of_other_things_is_refused(specs, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty and holds no plan"):
        generate(specs, tmp_path)
    with pytest.raises(InputError, match="is a file"):
        generate(specs, tmp_path / "thesis.txt")
    assert content(tmp_path) == {"thesis.txt": b"mine"}


def test_a_folder_in_use_is_refused(specs, trained, tmp_path):
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(InputError, match="is being written by another process"):
        generate(specs, tmp_path / "out")
    assert trained == []


def test_the_plan_on_disk_is_a_plan(specs, undisturbed):
    assert resolve([str(undisturbed.path / "plan.json")])[1] == specs
    assert read_json(undisturbed.path / "plan.json")["runs"] == [spec.to_json() for spec in specs]


def test_one_layer_and_one_head_are_recorded_as_lists(tmp_path):
    """A signal with one number a layer has a list of one where there is one layer."""
    words = [*TINY, "steps=8", "model.layers=1"]
    words[words.index("model.heads=2")] = "model.heads=1"
    specs = family_of("mask_missing", [0], overrides=words)
    trace = generate(specs, tmp_path / "out").trace(specs[0].run_id)
    assert trace["attention_entropy"].shape == (8, 1)
    assert trace["head_entropy"].shape == (8, 1)
    assert trace["layer_grad_norm"].shape == (8, 3)
    assert trace["loss"].shape == (8,)
