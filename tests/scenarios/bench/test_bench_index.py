"""The page over the records of benchmarks."""

from pathlib import Path

import torch

from trainwreck.scenarios.bench import measure, record, train
from trainwreck.scenarios.bench import table as tables
from trainwreck.scenarios.bench.table import Goal, Table

ROOT = Path(__file__).resolve().parents[3]


def table(name, *goals):
    return Table(f"bench/{name}", f"Title of {name}", "How.", "command", ("what",), (("a",),), goals=goals)


def test_a_record_renews_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "processor_kind", lambda: "a-kind")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    for made in (
        table("train", Goal("ours", "theirs", 1.3, 1.046), Goal("ours", "itself", 1.05, 1.049, least=False)),
        table("cuda"),
    ):
        monkeypatch.setattr(train, "against_plain_loop", lambda tick, made=made: made)
        measure("train", lambda *said: None, record=True)
    text = (tmp_path / "results/bench/README.md").read_text("utf-8")
    assert "| [train](train/a-kind/README.md) | a-kind | ours | at least 1.3 x theirs | 1.05 x | no |" in text
    assert "| [train](train/a-kind/README.md) | a-kind | ours | at most 1.05 x itself | 1.05 x | yes |" in text
    assert text.index("- [cuda](cuda/a-gpu/README.md): Title of cuda") < text.index("- [train]")
    assert text.endswith("Not measured yet, since they need a CUDA device (`make gpu`): `attention`.\n")


def test_a_record_replaces_none_of_another_processor(tmp_path, monkeypatch):
    for kind, measured in (("one", 1.0), ("other", 2.0), ("one", 3.0)):
        monkeypatch.setattr(tables, "processor_kind", lambda kind=kind: kind)
        folder = table("train", Goal("ours", "theirs", 1.3, measured)).record(tmp_path)
        assert folder == tmp_path / "bench" / "train" / kind
    found = record.records(tmp_path / "bench")
    assert {place: one["goals"][0]["measured"] for place, one in found.items()} == {
        "train/one": 3.0,
        "train/other": 2.0,
    }
    text = record.page(found)
    assert "| [train](train/one/README.md) | one | ours | at least 1.3 x theirs | 3.00 x | yes |" in text
    assert "| [train](train/other/README.md) | other | ours | at least 1.3 x theirs | 2.00 x | yes |" in text


def test_where_it_was_measured_is_the_device_that_it_was_measured_on():
    where = {"processor": "a processor", "gpus": ["a GPU"]}
    records = {f"{name}/here": {"title": name, "environment": where} for name in ("train", "cuda", "attention")}
    text = record.page(records)
    assert "(train/here/README.md): train (a processor)." in text
    assert text.count("(a GPU).") == 2
    assert "Not measured" not in text
    assert "asked for |" not in text  # no goal, no table


def test_the_page_here_is_of_the_records_here():
    folder = ROOT / "results/bench"
    records = record.records(folder)
    assert (folder / "README.md").read_text("utf-8") == record.page(records)
    for place, found in records.items():
        assert found["name"] == f"bench/{Path(place).parent}"
        for facts in found.get("goals", ()):
            assert Goal(**facts).sentence() in (folder / place / "README.md").read_text("utf-8")
    assert sum(len(found.get("goals", ())) for found in records.values()) >= 6
