"""TensorBoard event files that grow record by record, and byte by byte."""

from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.live.events import Events
from trainwreck.evaluation.live.sources import open_log
from trainwreck.evaluation.logs.readers import read


def events(*points: tuple[int, str, float]) -> bytes:
    import io

    out = io.BytesIO()
    writer = RecordWriter(out)
    for step, tag, value in points:
        event = Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))
        writer.write(event.SerializeToString())
    return out.getvalue()


def seen(source: Any) -> list[tuple[int, str, float]]:
    return [(step, str(target), value) for step, values in source.poll() for target, value in values.items()]


POINTS = ((1, "train/loss", 3.0), (1, "lr", 0.5), (2, "train/loss", 2.5), (2, "image", 7.0), (2, "eval/loss", 2.0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.out.tfevents.0"


def test_every_cut_gives_the_points_that_import_reads(file: Path) -> None:
    content = events(*POINTS)
    file.write_bytes(content)
    (log,) = read(file)
    expected = sorted(
        (step, str(target), value)
        for target, points in log.points.items()
        for step, value in zip(points.steps, points.values, strict=True)
    )
    assert len(expected) == 4
    for cut in range(0, len(content), 5):
        file.write_bytes(content[:cut])
        source = Events(file, {})
        found = seen(source)
        file.write_bytes(content)
        assert sorted(found + seen(source)) == expected, cut


def test_a_second_file_of_the_folder_goes_on(file: Path) -> None:
    file.write_bytes(events((1, "loss", 3.0)))
    source = Events(file.parent, {})
    assert seen(source) == [(1, "loss", 3.0)]
    file.with_name("events.out.tfevents.1").write_bytes(events((2, "loss", 2.5)))
    assert seen(source) == [(2, "loss", 2.5)]
    assert seen(source) == []


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    source = open_log(tmp_path / "later", None, {}, wait=True)
    assert seen(source) == []
    (tmp_path / "later").mkdir()
    assert seen(source) == []
    (tmp_path / "later" / "a.tfevents").write_bytes(events((1, "loss", 3.0)))
    assert seen(source) == [(1, "loss", 3.0)]


@pytest.mark.parametrize("at", [0, 9, 20, -1], ids=["length", "its checksum", "content", "checksum"])
def test_damage_is_told(file: Path, at: int) -> None:
    content = bytearray(events((1, "loss", 3.0)))
    content[at] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="damaged at byte 0"):
        seen(Events(file, {}))


def test_what_else_is_refused(file: Path) -> None:
    file.write_bytes(events(*POINTS))
    source: Any = Events(file, {})
    seen(source)
    file.write_bytes(b"")
    with pytest.raises(InputError, match="shorter than it was"):
        seen(source)
    for name in ("a", "b"):
        (file.parent / name).mkdir()
        (file.parent / name / "x.tfevents").write_bytes(events((1, "loss", 3.0)))
    file.unlink()
    with pytest.raises(InputError, match=r"several runs in it; allowed: one of .*/a, .*/b"):
        seen(Events(file.parent, {}))


def test_the_end_tells_of_a_record_that_is_not_whole_and_of_tags_that_nobody_knows(file: Path) -> None:
    file.write_bytes(events((1, "loss", 3.0)) + events((2, "loss", 2.0))[:20])
    source = Events(file, {})
    assert seen(source) == [(1, "loss", 3.0)]
    assert list(source.finish()) == []
    assert source.rules == {"cut off last record": 1}
    file.write_bytes(events((1, "quality", 3.0)))
    source = Events(file, {})
    assert seen(source) == []
    with pytest.raises(InputError, match="no column is a known signal: 'quality'"):
        source.finish()
