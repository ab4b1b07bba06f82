"""A log that is written as its run's id draws it is read again as the rows that a detector sees."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.constants import COMMON_SIGNALS
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.sample import named
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.logs.exporters import export, logged
from trainwreck.evaluation.logs.exporters.logged import NAMES, TEXTS, file_of
from trainwreck.evaluation.logs.names import signal_of
from trainwreck.evaluation.logs.readers import read
from trainwreck.evaluation.logs.rules import to_trace
from trainwreck.evaluation.replay.logged.config import config_of
from trainwreck.evaluation.replay.profiles import observe
from trainwreck.evaluation.replay.rows import rows

STEPS = 130
IDS = [f"r{i}" for i in range(120)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: Any, write_data_set: Any, make_trace: Any, make_run: Any) -> DataSet:
    """Runs enough for each form and way of NaN; the loss of every second is not finite from step 70 on."""
    steps = np.arange(STEPS)
    loss, norm = 4.2 * np.exp(-steps / 90), 0.7 + 0.1 * np.sin(steps)
    broken = {"loss": np.where(steps >= 70, np.nan, loss), "grad_norm": np.where(steps >= 70, np.nan, norm)}
    whole = {"loss": loss, "grad_norm": norm}
    traces = [make_trace(one, steps=STEPS, **(broken if i % 2 else whole)) for i, one in enumerate(IDS)]
    facts = [make_run(one, last_step=STEPS - 1) for one in IDS]
    return write_data_set(tmp_path_factory.mktemp("many"), facts, traces)


@pytest.fixture(scope="module")
def exported(many: DataSet, tmp_path_factory: Any) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("out") / "logs"
    return folder, export(many, "logged", folder)


def seen(trace: Trace, profile: str = "full") -> list[str]:
    """Rows with what a public log has, but for those between others that have nothing but a step."""
    found = [
        [row["step"], *(row[name] for name in COMMON_SIGNALS)]
        for row in observe(rows(trace), profile, run_id=trace.run_id)
    ]
    last = max(at for at, (_, *values) in enumerate(found) if any(value is not None for value in values))
    return [repr(row) for at, row in enumerate(found) if at > last or any(value is not None for value in row[1:])]


def test_a_log_reads_as_the_rows_that_a_detector_sees(many: DataSet, exported: tuple[Path, dict[str, str]]) -> None:
    folder, where = exported
    tried = Counter()
    for run_id, name in where.items():
        blank = config_of(run_id).not_finite == "blank"
        (log,) = read(folder / name, blank="missing" if blank else None)
        assert seen(to_trace(log, run_id)[0]) == seen(many.trace(run_id), "logged"), run_id
        tried[name.rpartition(".")[2]] += 1
        tried[config_of(run_id).not_finite] += 1
        tried[log.format] += 1
    assert set(tried) == {"csv", "jsonl", "txt", "text", "written", "blank", "zero", "last", "before"}


def test_by_the_rule_for_blank_cells_those_at_the_end_are_nan(
    many: DataSet, exported: tuple[Path, dict[str, str]]
) -> None:
    folder, where = exported
    for run_id in IDS[1::2]:
        config = config_of(run_id)
        if config.not_finite == "blank" and config.intervals == ((0, 1),) and not config.own_rows:
            trace = to_trace(read(folder / where[run_id])[0], run_id)[0]
            assert np.isnan(trace["loss"][trace.steps >= 70]).all()
            break
    else:
        pytest.fail("no run that leaves NaN blank")


def test_the_runs_of_the_sample_read_as_they_are_seen(tmp_path: Path) -> None:
    sample = load(named(Path("sample")))
    some = [run_id for run_id in sample.runs["run_id"] if config_of(run_id).not_finite != "blank"][:12]
    for run_id, name in export(sample, "logged", tmp_path / "out", some).items():
        (log,) = read(tmp_path / "out" / name)
        assert seen(to_trace(log, run_id)[0]) == seen(sample.trace(run_id), "logged"), run_id


def test_what_was_drawn_lies_beside_and_the_bytes_are_the_same_again(
    many: DataSet, exported: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, _ = exported
    configs = json.loads((folder / "logging.json").read_text(encoding="utf-8"))
    assert list(configs) == sorted(IDS)
    assert configs["r0"]["not_finite"] == config_of("r0").not_finite
    export(many, "logged", tmp_path / "again")
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_forms_clocks_and_pauses_have_their_shares() -> None:
    files = [file_of(f"r{i}") for i in range(4000)]
    shown = [one for i, one in enumerate(files) if config_of(f"r{i}").not_finite != "blank"]
    for table, of, among in (
        (logged.FORMS, lambda one: one.form, shown),
        (logged.CLOCKS, lambda one: one.clock, files),
        ({True: logged.PAUSED}, lambda one: one.pause is not None, files),
    ):
        counts = Counter(map(of, among))
        for value, share in table.items():
            assert abs(counts[value] - share * len(among)) <= 4 * math.sqrt(len(among) * share * (1 - share)), value
    assert {one.names for one in files if one.form == "txt"} == set(range(len(TEXTS)))
    assert {one.names for one in files if one.form != "txt"} == set(range(len(NAMES)))


def test_a_pause_is_in_the_clock_alone() -> None:
    one = next(one for one in (file_of(f"r{i}") for i in range(1000)) if one.pause and one.clock == "elapsed")
    assert one.pause is not None
    step, seconds = one.pause
    apart = [float(one.time(at + 1)) - float(one.time(at)) for at in (step - 2, step - 1, step)]
    assert apart == pytest.approx([one.seconds, one.seconds + seconds, one.seconds], abs=0.02)
    assert 600 <= seconds <= 7200


@pytest.mark.parametrize("names", NAMES)
def test_names_are_known(names: tuple[str, ...]) -> None:
    assert [signal_of(name)[0] for name in names] == ["step", *COMMON_SIGNALS]
