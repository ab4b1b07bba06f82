"""The card: a head that Hugging Face reads, globs that hit the right files, numbers that are counted."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.detectors.registry import builtin_detectors
from trainwreck.evaluation.release.card import size_category
from trainwreck.evaluation.release.facts import Facts
from trainwreck.evaluation.replay.oracles import ORACLES


@pytest.fixture(scope="session")
def text(released: Path) -> str:
    return (released / "README.md").read_text("utf-8")


@pytest.fixture(scope="session")
def head(text: str) -> dict[str, object]:
    _, content, _ = text.split("---\n", 2)
    return dict(yaml.safe_load(content))


def test_the_head_names_licence_size_and_tags(head: dict[str, object]) -> None:
    assert head["license"] == "cc-by-4.0"
    assert head["size_categories"] == ["n<1K"]  # 800 rows
    assert "anomaly-detection" in head["tags"]
    assert head["pretty_name"] == "Trainwreck: small"


@pytest.mark.parametrize("config", ["runs", "telemetry"])
def test_each_split_of_a_config_has_its_files_and_no_other(
    config: str, head: dict[str, list[dict[str, list[dict[str, str]]]]], released: Path
) -> None:
    (found,) = [entry for entry in head["configs"] if entry["config_name"] == config]
    runs = load(released).runs
    assert [entry["split"] for entry in found["data_files"]] == ["calibration", "test"]
    for entry in found["data_files"]:
        files = sorted(released.glob(entry["path"]))
        ids = {
            i
            for file in files
            for i in pq.read_table(file, columns=["run_id"], partitioning=None)["run_id"].to_pylist()
        }
        assert ids == set(runs.index[runs["split"] == entry["split"]])


def test_counts_are_those_of_the_runs(text: str, released: Path) -> None:
    assert "Telemetry of 20 training runs" in text
    assert "| split | failing | healthy | look-alike | cured |" in text
    assert "| calibration | 0 | 4 | 0 | 0 |" in text
    assert "| test | 6 | 3 | 1 | 6 |" in text
    assert "| data | 12 | corrupt_tokens, high_lr |" in text
    assert "was not measured for 6 of 6 failing runs" in text
    assert "needs 60 calibration runs; here are 4" in text


def test_it_names_what_is_there_and_no_more(released: Path) -> None:
    table = pq.read_table(released / "runs.parquet").to_pylist()
    facts = Facts(table, {})
    assert "with healthy twins, cured runs, look-alikes and runs to calibrate on (" in facts.summary()
    assert facts.roles().endswith("Thresholds are frozen on `calibration`, scores are taken on `test`.")
    assert "The language that the runs learn is synthetic" in " ".join(facts.limits())
    kept = [row | {"split": "train"} for row in table if row["kind"] in ("failing", "healthy")]
    less = Facts(kept, {})
    assert "with healthy twins (2 scenarios)." in less.summary()
    assert less.roles().endswith("Models learn from `train`.")
    texts = [row | {"context": '{"data": {"source": "text"}}'} for row in kept]
    assert "is synthetic" not in " ".join(Facts(texts, {}).limits())
    assert "that 1 of the runs learn is" in " ".join(Facts([*texts[1:], kept[0]], {}).limits())


def test_scenarios_that_are_not_proven_are_named(released: Path) -> None:
    table = pq.read_table(released / "runs.parquet").to_pylist()
    assert "Each scenario was proven on 8 seeds" in " ".join(Facts(table, {}).annotation())
    own = [row | {"unproven": row["scenario"] == "high_lr"} for row in table]
    count = sum(row["unproven"] for row in own)
    words = " ".join(Facts(own, {}).annotation())
    assert f"Not proven with the settings of {count} of the runs: high_lr (column `unproven`)." in words
    assert "Each scenario was proven" not in words


def test_every_baseline_has_its_line_and_no_time_in_it(text: str, released: Path) -> None:
    rows = json.loads((released / "baselines.json").read_text("utf-8"))["rows"]
    assert {row["detector"] for row in rows} == {*builtin_detectors(), *ORACLES}
    assert "update_us" not in rows[0]
    order = re.findall(r"^\| (?:-|\d+) \| (\w+) \| full \|", text, re.M)
    assert order == 4 * [row["detector"] for row in rows], "a table an operating point"


def test_links_lead_to_files_of_the_release(text: str, released: Path) -> None:
    targets = re.findall(r"\]\((?!http)([^)]+)\)", text)
    assert targets
    assert all((released / target).is_file() for target in targets)


def test_the_versions_are_those_of_the_training(text: str) -> None:
    assert "| torch | 2.7 |" in text
    assert "| processor | a CPU |" in text
    assert "| revision |" not in text, "which is empty here"


@pytest.mark.parametrize(
    ("rows", "name"),
    [(0, "n<1K"), (999, "n<1K"), (1_000, "1K<n<10K"), (4_000_000, "1M<n<10M"), (10**9, "1B<n<10B")],
)
def test_classes_of_size(rows: int, name: str) -> None:
    assert size_category(rows) == name


def test_a_strange_plan_has_a_plain_name() -> None:
    assert Facts([], {"plan": 'my "plan" </script>'}).name == "trainwreck-my-plan-script"
