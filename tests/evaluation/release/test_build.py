"""A release is a data set with the same runs, the same bytes each time, and whole or not there."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.schema import SIGNALS
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.labels.labelling import relabel
from trainwreck.evaluation.leaderboard.run import score
from trainwreck.evaluation.release import build, partitions, release

PUBLISHED, URL = "2026-01-31", "https://example.org/data"
FILES = {
    "COLUMNS.md", "LICENSE", "README.md", "SHA256SUMS", "baselines.json", "catalogue.json", "croissant.json",
    "manifest.json", "plan.json", "runs.parquet", "runs/calibration.parquet", "runs/test.parquet",
}  # fmt: skip


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_runs_are_the_same_but_for_their_files(source: Path, released: Path) -> None:
    before, after = load(source), load(released)
    pd.testing.assert_frame_equal(after.runs.drop(columns="file"), before.runs.drop(columns="file"))
    for run_id in before.runs.index:
        old, new = before.trace(run_id), after.trace(run_id)
        assert new.run_id == run_id
        np.testing.assert_array_equal(new.evaluated, old.evaluated)
        for signal in SIGNALS:
            np.testing.assert_array_equal(new[signal.name].view(np.uint32), old[signal.name].view(np.uint32))


def test_columns_without_a_value_in_any_run_are_left_out(source: Path, released: Path) -> None:
    empty = {"kl"}
    assert set(partitions.empty_columns(load(source).trace, load(source).runs.index)) == empty
    names = ["run_id", "step", *(signal.name for signal in SIGNALS if signal.name not in empty)]
    for name in set(load(released).runs["file"]):
        assert sorted(pq.read_schema(released / name).names) == sorted(names)
    for name in set(load(source).runs["file"]):
        assert empty < set(pq.read_schema(source / name).names)
    page = (released / "COLUMNS.md").read_text("utf-8")
    assert "| `kl` |" not in page
    assert "no columns: `kl`." in page
    fields = json.loads((released / "croissant.json").read_text("utf-8"))["recordSet"][-1]["field"]
    assert [field["name"] for field in fields] == names


def test_a_column_that_one_run_has_stays(source: Path) -> None:
    data = load(source)
    with_one = {run_id: data.trace(run_id) for run_id in data.runs.index}
    with_one[data.runs.index[-1]]["kl"][-1] = 0.0
    assert partitions.empty_columns(with_one.__getitem__, with_one) == ()


def test_it_scores_as_the_data_set_does(source: Path, released: Path) -> None:
    before, after = (score("loss_over_minimum", load(root)).to_dict() for root in (source, released))
    for card in (before, after):
        card.pop("cost")
        card["alarms"] = {alarms["run_id"]: alarms["first_alarm"] for alarms in card["alarms"]}
    assert after == before


def test_files_lie_by_split_and_kind(released: Path) -> None:
    runs = load(released).runs
    names = {name for name in contents(released) if name.startswith("telemetry/")}
    assert set(contents(released)) - names == FILES
    assert names == set(runs["file"])
    for _, row in runs.iterrows():
        assert row["file"] == f"telemetry/split={row['split']}/kind={row['kind']}/part-00000.parquet"


def test_runs_by_split_are_the_runs(released: Path) -> None:
    whole = pd.read_parquet(released / "runs.parquet")
    for split in ("calibration", "test"):
        part = pd.read_parquet(released / f"runs/{split}.parquet")
        expected = whole[whole["split"] == split].reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected, check_dtype=False)  # a column may be all empty here


def test_large_data_is_cut_between_runs(
    source: Path, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "GROUP_ROWS", 100)
    monkeypatch.setattr(partitions, "FILE_ROWS", 160)
    data = release(source, tmp_path / "rel")
    folder = tmp_path / "rel/telemetry/split=test/kind=failing"
    files = [pq.ParquetFile(path) for path in sorted(folder.iterdir())]
    groups = [[file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] for file in files]
    assert groups == [[120, 40], [80]]
    ids = [run_id for file in files for run_id in file.read(["run_id"]).column(0).unique().to_pylist()]
    assert ids == sorted(load(source).runs.query("kind == 'failing'").index)
    statistics = files[0].metadata.row_group(1).column(0).statistics
    assert (statistics.min, statistics.max) == (ids[3], ids[3])
    whole = load(released)
    for run_id in data.runs.index:
        np.testing.assert_array_equal(data.trace(run_id)["head_entropy"], whole.trace(run_id)["head_entropy"])


def test_the_same_data_gives_the_same_bytes(source: Path, released: Path, data: Path, tmp_path: Path) -> None:
    (data / "scores.json").unlink()  # its leaderboard is taken anew
    release(data, tmp_path / "again", published=PUBLISHED, url=URL)
    assert contents(tmp_path / "again") == contents(released)
    release(released, tmp_path / "of it", published=PUBLISHED, url=URL)
    assert contents(tmp_path / "of it") == contents(released)
    assert contents(data) == {name: text for name, text in contents(source).items() if name != "scores.json"}


def test_checksums_are_of_every_file(released: Path) -> None:
    lines = (released / "SHA256SUMS").read_text("utf-8").splitlines()
    named = dict(reversed(line.split("  ")) for line in lines)
    files = contents(released)
    del files["SHA256SUMS"]
    assert named == {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="no sha256sum here")
def test_sha256sum_reads_them(rel: Path) -> None:
    def check() -> int:
        return subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=rel, capture_output=True, check=False).returncode

    assert check() == 0
    (rel / "README.md").write_text("edited")
    assert check() == 1


def test_the_plan_is_every_run_in_order(released: Path) -> None:
    plan = json.loads((released / "plan.json").read_text("utf-8"))
    assert plan["format"] == "trainwreck-plan"
    assert plan["runs"] == [json.loads(spec) for spec in load(released).runs["spec"]]


def test_the_leaderboard_beside_the_data_is_used_only_if_it_has_the_same_entries(data: Path, tmp_path: Path) -> None:
    scores = json.loads((data / "scores.json").read_text("utf-8"))
    assert scores["rows"][3]["detector"] != "mine"
    scores["rows"][3]["detector"] = scores["cards"][3]["detector"] = "mine"
    (data / "scores.json").write_text(json.dumps(scores), "utf-8")
    release(data, tmp_path / "rel")
    assert "mine" not in (tmp_path / "rel/baselines.json").read_text("utf-8")


def test_an_interrupted_release_leaves_the_earlier_one(
    source: Path, rel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(rel.parent)

    def broken_off(*said: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "card", broken_off)
        with pytest.raises(KeyboardInterrupt):
            release(source, rel)
    assert contents(rel.parent) == before
    # Killed, it can't tidy up: what it left is not mistaken for anything.
    (rel.parent / ".tmp-rel/telemetry").mkdir(parents=True)
    (rel.parent / ".tmp-rel/telemetry/left.parquet").write_text("half")
    release(source, rel, published=PUBLISHED, url=URL)
    assert contents(rel.parent) == before


def test_two_at_once_are_refused(source: Path, tmp_path: Path) -> None:
    with FileLock(tmp_path / ".tmp-rel.lock"), pytest.raises(InputError, match="is being written by another process"):
        release(source, tmp_path / "rel")
    assert not (tmp_path / "rel").exists()


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("data", "is in the data set"),
        ("data/rel", "is in the data set"),
        (".", "holds the data set"),
        ("file", "is a file; allowed: a folder"),
        ("file/rel", "can't be written"),
        ("notes", "is not empty and holds no release"),
    ],
)
def test_a_place_that_is_taken_is_refused(out: str, complaint: str, data: Path) -> None:
    root = data.parent
    (root / "file").write_text("mine")
    (root / "notes").mkdir()
    (root / "notes/SHA256SUMS").write_text("mine")
    before = contents(root)
    with pytest.raises(InputError, match=complaint):
        release(data, root / out)
    assert contents(root) == before


def test_what_someone_put_into_a_release_is_not_thrown_away(source: Path, rel: Path) -> None:
    (rel / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'thesis\.txt', which is not of the release"):
        release(source, rel)
    (rel / "thesis.txt").unlink()
    (rel / "scores.json").write_text("{}")  # `leaderboard` leaves it
    release(source, rel)
    assert not (rel / "scores.json").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"published": "31.1.2026"}, r"published: '31\.1\.2026' is not allowed; allowed: a day as 2026-01-31"),
        ({"published": "20260131"}, "published: '20260131' is not allowed"),
        ({"published": "2026-02-30"}, "published: '2026-02-30' is not allowed"),
        ({"url": "example.org"}, "url: 'example.org' is not allowed; allowed: http"),
        ({"profiles": ["ful"]}, "profile: 'ful' is not allowed; did you mean 'full'"),
    ],
)
def test_words_that_are_none_are_refused(
    words: dict[str, object], complaint: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=complaint):
        release(source, tmp_path / "rel", **words)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_damaged_data_is_not_released(data: Path) -> None:
    (data / "catalogue.json").write_text("{}")
    with pytest.raises(InputError, match=r"catalogue\.json: damaged"):
        release(data, data.parent / "rel")
    assert [path.name for path in data.parent.iterdir()] == ["data"]


def test_a_release_is_not_labelled_again(rel: Path) -> None:
    before = contents(rel)
    with pytest.raises(InputError, match="a release is never changed"):
        relabel(rel)
    assert contents(rel) == before


def test_a_release_without_its_manifest_is_not_called_unfinished(rel: Path) -> None:
    (rel / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"manifest\.json: missing"):
        load(rel)


def test_every_damaged_file_is_named(rel: Path) -> None:
    names = ["runs.parquet", "runs/test.parquet", "plan.json", "telemetry/split=test/kind=failing/part-00000.parquet"]
    (rel / names[0]).write_bytes((rel / names[0]).read_bytes()[:-1])
    (rel / names[1]).unlink()
    for name in names[2:]:
        content = bytearray((rel / name).read_bytes())
        content[len(content) // 2] ^= 1
        (rel / name).write_bytes(bytes(content))
    with pytest.raises(InputError) as error:
        load(rel)
    parts = str(error.value).split("; ")
    assert sorted(part.partition(": ")[0] for part in parts) == sorted(str(rel / name) for name in names)
    assert [("missing" in part, "bytes where" in part, "checksum" in part).index(True) for part in sorted(parts)]
