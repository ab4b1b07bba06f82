"""The page over the records of benchmarks."""

from pathlib import Path

from trainwreck.scenarios.bench import measure, record, train
from trainwreck.scenarios.bench.table import Goal, Table

ROOT = Path(__file__).resolve().parents[3]


def table(name, *goals):
    return Table(f"bench/{name}", f"Title of {name}", "How.", "command", ("what",), (("a",),), goals=goals)


def test_a_record_renews_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for made in (
        table("train", Goal("ours", "theirs", 1.3, 1.046), Goal("ours", "itself", 1.05, 1.049, least=False)),
        table("cuda"),
    ):
        monkeypatch.setattr(train, "against_plain_loop", lambda tick, made=made: made)
        measure("train", lambda *said: None, record=True)
    text = (tmp_path / "results/bench/README.md").read_text("utf-8")
    assert "| [train](train/README.md) | ours | at least 1.3 x theirs | 1.05 x | no |" in text
    assert "| [train](train/README.md) | ours | at most 1.05 x itself | 1.05 x | yes |" in text
    assert text.index("- [cuda](cuda/README.md): Title of cuda") < text.index("- [train]")
    assert text.endswith("Not measured yet, since they need a CUDA device (`make gpu`): `attention`.\n")


def test_where_it_was_measured_is_the_device_that_it_was_measured_on():
    where = {"processor": "a processor", "gpus": ["a GPU"]}
    records = {name: {"title": name, "environment": where} for name in ("train", *record.ON_CUDA)}
    text = record.page(records)
    assert "(train/README.md): train (a processor)." in text
    assert text.count("(a GPU).") == 2
    assert "Not measured" not in text
    assert "asked for |" not in text  # no goal, no table


def test_the_page_here_is_of_the_records_here():
    folder = ROOT / "results/bench"
    records = {path.parent.name: record.read(path.parent) for path in sorted(folder.glob("*/result.json"))}
    assert (folder / "README.md").read_text("utf-8") == record.page(records)
    for found in records.values():
        for facts in found.get("goals", ()):
            assert Goal(**facts).sentence() in (ROOT / "results" / found["name"] / "README.md").read_text("utf-8")
    assert sum(len(found.get("goals", ())) for found in records.values()) >= 6
