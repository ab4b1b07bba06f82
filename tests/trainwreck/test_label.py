"""`trainwreck label`: visible steps and points of no return, resumed, in slices, refused in one line."""

import json
import shutil
from collections import Counter

import pytest

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.files import sha256
from trainwreck.scenarios.datasets.engines import local
from trainwreck.scenarios.datasets.engines.limits import SHARE
from trainwreck.scenarios.datasets.resources import needed
from trainwreck.scenarios.proof import no_return_dataset
from trainwreck.scenarios.proof.no_return import states_held
from trainwreck.scenarios.spec.run_spec import RunSpec


def parsed(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.fixture(scope="module")
def data_set(call, tiny, tmp_path_factory):
    """Failures that do harm in so short a run."""
    folder = tmp_path_factory.mktemp("harmed") / "data"
    plan = ("scenario=nan_weight_spread,residual_noise,logits_scaled", "seed=range(2)", *tiny)
    assert call("generate", *plan, "--out", folder, "--workers", "1").code == 0
    return folder


@pytest.fixture(scope="module")
def labelled(call, data_set, tmp_path_factory):
    """A copy of the data set with its points of no return. Read only."""
    folder = shutil.copytree(data_set, tmp_path_factory.mktemp("labelled") / "data")
    assert call("label", folder, "--workers", "1").code == 0
    return folder


def test_every_failing_run_that_ends_badly_gets_a_point(labelled, data_set):
    before, after = load(data_set).runs, load(labelled).runs
    failing = after[after["kind"] == "failing"]
    assert len(failing)
    assert (failing["no_return_step"] >= failing["onset_step"]).all()
    assert (failing["no_return_step"] <= failing["last_step"]).all()
    for _, row in failing[failing["outcome"] != "recovered"].iterrows():
        branches = {int(step): gap for step, gap in json.loads(row["no_return_branches"]).items()}
        assert len(branches) > 1
        assert row["no_return_monotone"] in (True, False)
        within = [step for step, gap in branches.items() if gap is not None and abs(gap) <= row["tolerance"]]
        assert row["no_return_step"] in {*within, row["onset_step"]}
    assert after[after["kind"] != "failing"]["no_return_step"].isna().all()
    same = [c for c in before.columns if not c.startswith("no_return")]
    assert before[same].equals(after[same])


def test_again_it_trains_nothing_and_changes_nothing(call, labelled, monkeypatch):
    def refuse(*details):
        raise AssertionError("searched again")

    before = {path: sha256(path) for path in labelled.rglob("*.*") if path.is_file()}
    monkeypatch.setattr(no_return_dataset, "search", refuse)
    parsed(call("label", labelled, "--workers", "1", "--json"))
    assert {path: sha256(path) for path in labelled.rglob("*.*") if path.is_file()} == before


def test_what_is_left_is_of_what_searches_cost(copied, monkeypatch):
    """Not of how many runs are done: the costly searches come first."""
    calls = []
    monkeypatch.setitem(no_return_dataset.LOT, "cpu", 0.0)
    no_return_dataset.measure(copied, workers=1, progress=lambda *call: calls.append(call))
    searched = [call for call in calls if call[2] is not None]
    assert calls[0] == (0, calls[-1][1], None)
    assert [done for done, _, _ in searched] == list(range(1, calls[-1][1] + 1))
    assert searched[-1][2] == 0.0
    assert all(left >= 0 for _, _, left in searched)


def test_stopped_between_two_bundles_it_goes_on(call, copied, labelled, monkeypatch):
    real, calls = no_return_dataset.search, []

    def once(searches, backend):
        if calls:
            raise KeyboardInterrupt
        calls.append(len(searches))
        real(searches, backend)

    monkeypatch.setitem(no_return_dataset.LOT, "cpu", 0.0)
    monkeypatch.setattr(no_return_dataset, "search", once)
    assert call("label", copied, "--workers", "1").code == 130
    assert len(list((copied / "no_return").glob("*.json"))) == 1
    monkeypatch.setattr(no_return_dataset, "search", real)
    assert call("label", copied, "--workers", "1").code == 0
    assert (copied / "runs.parquet").read_bytes() == (labelled / "runs.parquet").read_bytes()


def test_a_kill_loses_the_searches_of_one_lot(call, copied, labelled, monkeypatch):
    """Killed at the end of every second lot, before its points are written: these are trained again, nothing else."""
    real, seen, lost = no_return_dataset.search, [], []

    def killed(searches, backend):
        real(searches, backend)
        seen.append([one.spec.run_id for one in searches])
        if len(seen) % 2 == 0 and len(lost) < 2:
            lost.append(seen[-1])
            raise KeyboardInterrupt

    monkeypatch.setitem(no_return_dataset.LOT, "cpu", 0.0)
    monkeypatch.setattr(no_return_dataset, "search", killed)
    codes = []
    while not codes or codes[-1] == 130:
        codes.append(call("label", copied, "--workers", "1").code)
    assert codes == [130, 130, 0]
    points = sorted(path.stem for path in (labelled / "no_return").glob("*.json"))
    times = Counter(run for lot in seen for run in lot)
    assert [len(lot) for lot in lost] == [1, 1]
    assert sorted((times - Counter(points)).elements()) == sorted(run for lot in lost for run in lot)
    assert sorted(times) == points
    assert (copied / "runs.parquet").read_bytes() == (labelled / "runs.parquet").read_bytes()


def test_memory_decides_how_many_searches_are_side_by_side(call, copied, labelled, monkeypatch):
    real, sizes = no_return_dataset.search, []

    def counted(searches, backend):
        sizes.append(len(searches))
        real(searches, backend)

    failing = load(labelled).runs.query("kind == 'failing'")
    setups = [RunSpec.from_json(json.loads(text)).setup for text in failing["spec"]]
    one = max(needed([setup], 1, states=states_held(setup.steps)) for setup in setups)
    monkeypatch.setattr(no_return_dataset, "search", counted)
    monkeypatch.setattr(local, "available", lambda device: int(0.5 * one))
    call("label", copied, "--workers", "1").refused("memory: ", "is not allowed for a run of")
    assert not (copied / "no_return").exists()
    monkeypatch.setattr(local, "available", lambda device: int(one / SHARE) + 2**16)
    assert call("label", copied, "--workers", "1").code == 0
    assert set(sizes) == {1}
    assert (copied / "runs.parquet").read_bytes() == (labelled / "runs.parquet").read_bytes()


@pytest.fixture
def elsewhere(labelled, tmp_path):
    """What is handed on of a labelled data set: no telemetry."""
    (tmp_path / "elsewhere").mkdir()
    for name in ("manifest.json", "runs.parquet"):
        shutil.copy(labelled / name, tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_points_measured_elsewhere_are_taken_over(call, copied, elsewhere, labelled, monkeypatch):
    def refuse(*details):
        raise AssertionError("searched again")

    monkeypatch.setattr(no_return_dataset, "search", refuse)
    points = len(list((labelled / "no_return").glob("*.json")))
    result = call("label", copied, "--from", elsewhere)
    assert result.code == 0, result.err
    assert f"{points} points of no return taken over" in result.err
    assert (copied / "runs.parquet").read_bytes() == (labelled / "runs.parquet").read_bytes()
    assert (copied / "manifest.json").read_bytes() == (labelled / "manifest.json").read_bytes()
    assert "0 points of no return taken over" in call("label", copied, "--from", elsewhere).err


def test_points_of_other_telemetry_or_of_other_runs_are_refused(call, copied, elsewhere, tiny, tmp_path):
    manifest = json.loads((elsewhere / "manifest.json").read_text(encoding="utf-8"))
    for name, facts in manifest["files"].items():
        if name.startswith("telemetry"):
            facts["sha256"] = "0" * 64
    (elsewhere / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    call("label", copied, "--from", elsewhere).refused("telemetry of run", "bitwise the same")
    call("label", copied, "--from", elsewhere, "--check").refused("--check")
    call("label", copied, "--from", tmp_path / "nowhere").refused("nowhere")
    assert not (copied / "no_return").exists()


def test_a_slice_of_a_split_leaves_the_others(call, copied):
    rows = parsed(call("label", copied, "--split", "calibration", "--workers", "1", "--json"))
    assert all(row["no_return_step"] is None for row in rows if row["outcome"] != "recovered")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--split", "tset"], ["split: 'tset'", "did you mean 'test'?"]),
        (["--split", "test", "--visible"], ["split", "--visible"]),
        (["--split", "test", "--check"], ["--split: not allowed beside --check, which trains nothing"]),
        (["--workers", "1", "--visible"], ["--workers: not allowed beside --visible, which trains nothing"]),
        (["--minutes", "1", "--from", "sample"], ["--minutes: not allowed beside --from, which trains nothing"]),
        (["--visible", "--check"], ["--check: not allowed beside --visible; allowed: one of them"]),
        (["--visible", "--from", "sample"], ["--from: not allowed beside --visible; allowed: one of them"]),
    ],
)
def test_bad_words_are_one_line(call, copied, words, parts):
    before = (copied / "runs.parquet").read_bytes()
    ended = call("label", copied, *words)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert all(part in ended.err for part in parts)
    assert (copied / "runs.parquet").read_bytes() == before


@pytest.mark.parametrize("content", ["", "[]", '{"run_id": "r"}'])
def test_a_damaged_point_is_named(call, copied, content):
    (copied / "no_return").mkdir()
    (copied / "no_return" / "r0.json").write_text(content, encoding="utf-8")
    ended = call("label", copied, "--visible")
    assert ended.code == 2
    assert "r0.json" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert load(copied)


def test_given_a_moment_it_does_a_piece_and_says_that_it_is_not_done(call, copied, labelled, monkeypatch):
    monkeypatch.setitem(no_return_dataset.LOT, "cpu", 0.0)
    ended = call("label", copied, "--minutes", "0.0001", "--workers", "1")
    assert ended.code == 3
    assert "the same command goes on" in ended.err.splitlines()[-1]
    assert len(list((copied / "no_return").glob("*.json"))) == 1
    assert call("label", copied, "--workers", "1").code == 0
    assert (copied / "runs.parquet").read_bytes() == (labelled / "runs.parquet").read_bytes()


def test_a_data_set_in_slices_of_time_is_the_same(call, data_set, tiny, tmp_path):
    plan = ("scenario=nan_weight_spread,residual_noise,logits_scaled", "seed=range(2)", *tiny)
    words = ("generate", *plan, "--out", tmp_path / "slow", "--workers", "1", "--minutes", "0.0001")
    codes = [call(*words).code for _ in range(2)]
    assert codes[0] == 3
    while codes[-1] == 3:
        codes.append(call(*words).code)
    assert codes[-1] == 0
    assert (tmp_path / "slow" / "runs.parquet").read_bytes() == (data_set / "runs.parquet").read_bytes()
