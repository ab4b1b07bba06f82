"""A file that is missing, damaged or edited is named in one line; exit code 2, and nothing is written."""

import json

import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.dataset.dataset import load, write_runs


def telemetry(folder):
    return next(iter(sorted((folder / "telemetry").iterdir())))


def flipped(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))
    return str(path)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])
    return str(path)


def removed(path):
    path.unlink()
    return str(path)


def relabelled(folder):
    """The runs table, rewritten with another onset."""
    rows = pq.read_table(folder / "runs.parquet").to_pylist()
    faulty = next(row for row in rows if row["onset_step"] is not None)
    faulty["onset_step"] -= 1
    write_runs(folder, rows)
    return "runs.parquet"


def with_manifest(folder, **changed):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")
    return "manifest.json"


DAMAGE = {
    "telemetry missing": lambda folder: removed(telemetry(folder)),
    "telemetry truncated": lambda folder: truncated(telemetry(folder)),
    "telemetry, a bit in the middle": lambda folder: flipped(telemetry(folder), 5000),
    "telemetry, a bit of the footer": lambda folder: flipped(telemetry(folder), -20),
    "runs table, a bit": lambda folder: flipped(folder / "runs.parquet", 300),
    "runs table relabelled": relabelled,
    "runs table missing": lambda folder: removed(folder / "runs.parquet"),
    "pages edited": lambda folder: flipped(folder / "catalogue.json", 50),
    "manifest missing": lambda folder: removed(folder / "manifest.json") and f"{folder}: not finished",
    "manifest truncated": lambda folder: truncated(folder / "manifest.json"),
    "manifest of another format": lambda folder: with_manifest(folder, format="other"),
    "manifest of a later version": lambda folder: with_manifest(folder, schema_version=99),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_by_every_reader(damage, call, copied, here):
    named = DAMAGE[damage](copied)
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    for words in (
        ("score", copied, "--detector", "zclip"),
        ("label", copied),
        ("leaderboard", copied),
        ("report", copied),
        ("reproduce", copied, "r0"),
    ):
        call(*words).refused(named)
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "words", [("label",), ("leaderboard",), ("report",), ("score", "--detector", "zclip")], ids=str
)
def test_a_missing_data_set_is_named(words, call, here):
    call(*words, "nowhere").refused("'nowhere' is not a folder")
    (here / "file").write_text("", encoding="utf-8")
    call(*words, "file").refused("'file' is not a folder")
    assert [path.name for path in here.iterdir()] == ["file"]


def test_an_unknown_run_is_named(call, data_set):
    known = load(data_set).runs["run_id"].iloc[0]
    call("reproduce", data_set, known[:-1] + "_").refused(known[:-1] + "_", f"did you mean '{known}'?")


def test_another_plan_in_the_folder_is_refused(call, copied, sweep):
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    call("generate", *sweep, "optimizer.lr=0.02", "--out", copied).refused(str(copied), "holds another plan")
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


def test_a_folder_with_other_things_is_refused(call, here, sweep):
    (here / "thesis.txt").write_text("mine", encoding="utf-8")
    call("generate", *sweep, "--out", here).refused("is not empty and holds no plan")
    assert [path.name for path in here.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_out_that_is_a_file_is_refused(out, call, here, sweep, tiny):
    (here / "file").write_text("mine", encoding="utf-8")
    call("generate", *sweep, "--out", out, "--workers", "1").refused(out)
    call("verify", "mask_missing", *tiny, "--seeds", "2", "--out", out, "--json").refused(out)
    call("demo", "--out", out).refused(out)
    assert (here / "file").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in here.iterdir()] == ["file"]


def test_a_picture_or_page_that_cannot_be_written_is_named(call, copied, here, tiny):
    (here / "file").write_text("mine", encoding="utf-8")
    for words in (("run", "mask_missing", *tiny, "--plot", "file/a.png"), ("report", copied, "--out", "file/a.html")):
        result = call(*words)
        assert result.code == 2
        assert result.err.splitlines()[-1].startswith("trainwreck: file/a.")
    assert [path.name for path in here.iterdir()] == ["file"]
