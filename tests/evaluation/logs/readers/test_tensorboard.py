"""Event files as PyTorch, Keras and older writers leave them: every scalar point."""

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.readers import read

SCALARS = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
OTHER = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))


def old(step: int, value: float, tag: str = "train/loss") -> Event:
    return Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


def new(step: int, value: Any, tag: str = "train/loss", metadata: SummaryMetadata | None = SCALARS) -> Event:
    entry = Summary.Value(tag=tag, tensor=make_tensor_proto(value), metadata=metadata)
    return Event(step=step, summary=Summary(value=[entry]))


def restart(step: int) -> Event:
    return Event(step=step, session_log=SessionLog(status=SessionLog.START))


def write(path: Path, events: Sequence[Event]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for event in [Event(file_version="brain.Event:2"), *events]:
            writer.write(event.SerializeToString())
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "events.out.tfevents.1"


@pytest.mark.parametrize("style", [old, new])
def test_all_points_are_read_not_a_sample(style: Any, file: Path, read_one: Any) -> None:
    write(file, [style(step, np.float32(step) / 3) for step in range(10_500)])
    trace, account, log = read_one(file)
    assert log.format == "tensorboard"
    assert len(trace) == account["loss"]["points"] == 10_500
    np.testing.assert_array_equal(trace["loss"], np.arange(10_500, dtype=np.float32) / np.float32(3))


def test_a_new_style_tag_says_what_it_is_once(file: Path, read_one: Any) -> None:
    write(file, [new(0, np.float32(2)), new(1, np.float32(3), metadata=None), new(2, np.float64("nan"), metadata=None)])
    assert repr(read_one(file)[0]["loss"].tolist()) == "[2.0, 3.0, nan]"


def test_files_of_one_folder_are_one_run(file: Path, read_one: Any) -> None:
    write(file, [old(step, 1.0) for step in range(6)])
    write(file.with_name("events.out.tfevents.2"), [old(step, 2.0) for step in range(4, 9)])
    trace, account, _ = read_one(file.parent)
    assert trace["loss"].tolist() == [1.0] * 4 + [2.0] * 5
    assert (account["loss"]["repeated"], account["loss"]["conflicting"]) == (2, 2)
    assert len(read_one(file)[0]) == 6, "one file is one file"


def test_a_restart_drops_what_was_written_from_its_step_on(file: Path, read_one: Any) -> None:
    write(file, [old(step, 1.0) for step in range(9)])
    write(file.with_name("events.out.tfevents.2"), [restart(4), old(4, 2.0), old(5, 2.0)])
    trace, _, log = read_one(file.parent)
    assert trace.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert log.rules == {"purged": 5}


def test_each_folder_is_a_run(file: Path) -> None:
    for name in ("a", "b/c"):
        write(file.parent / name / "events.out.tfevents.1", [old(3, 1.0)])
    assert [log.name for log in read(file.parent)] == ["a", "b/c"]


def test_what_is_no_scalar_is_left_out(file: Path, read_one: Any) -> None:
    write(
        file,
        [
            old(0, 1.0), new(0, np.ones(3, np.float32), "layers"), new(0, b"words", "text", OTHER),
            old(0, 0.5, "train/learning_rate"), old(0, 7.0, "throughput"),
        ],
    )  # fmt: skip
    trace, _, log = read_one(file)
    assert set(trace.signals) == {"loss", "lr", "validation_loss", "fresh_loss"}
    assert log.choice.ignored == {"throughput": "no known signal"}


def test_a_last_record_that_was_cut_off_is_counted(file: Path, read_one: Any) -> None:
    write(file, [old(step, 1.0) for step in range(5)])
    file.write_bytes(file.read_bytes()[:-3])
    trace, _, log = read_one(file)
    assert trace.steps.tolist() == [0, 1, 2, 3]
    assert log.rules == {"cut off last record": 1}


def test_damage_is_refused_not_cut_off(file: Path, read_one: Any) -> None:
    write(file, [old(step, 1.0) for step in range(5)])
    content = bytearray(file.read_bytes())
    (first,) = struct.unpack("<Q", content[:8])
    second = 16 + first
    content[second + 14] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match=f"damaged at byte {second}$"):
        read_one(file)


def test_steps_that_no_run_has_are_refused(file: Path, read_one: Any) -> None:
    write(file, [old(-1, 1.0)])
    with pytest.raises(InputError, match=r"tag 'train/loss': step -1 is not allowed"):
        read_one(file)


def test_a_file_without_scalars_is_refused(file: Path, read_one: Any) -> None:
    write(file, [])
    with pytest.raises(InputError, match="no scalar"):
        read_one(file)
    write(file, [old(0, 1.0, "accuracy")])
    with pytest.raises(InputError, match="no column is a known signal: 'accuracy'"):
        read_one(file)


def test_a_missing_library_is_named_with_its_extra(file: Path, read_one: Any, monkeypatch: Any) -> None:
    write(file, [old(0, 1.0)])
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(InputError, match=r"tensorboard is not installed .*pip install 'trainwreck\[tensorboard\]'"):
        read_one(file)
