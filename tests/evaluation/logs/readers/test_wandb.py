"""The log file of an offline run: records over blocks, whatever is left of a block behind the last."""

import struct
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import HistoryItem, HistoryRecord, HistoryStep, Record

from trainwreck.evaluation.errors import InputError

BLOCK = 32768


def row(step: int, text: str, key: str = "loss") -> bytes:
    items = [HistoryItem(key=key, value_json=text)]
    return Record(history=HistoryRecord(step=HistoryStep(num=step), item=items)).SerializeToString()


def padded(size: int) -> bytes:
    """A record of exactly so many bytes, that is no history."""
    for length in range(size):
        found = Record(uuid="x" * length).SerializeToString()
        if len(found) == size:
            return found
    raise AssertionError(f"no record has {size} bytes")


def framed(*records: bytes) -> bytes:
    """As the format has it: header, blocks, records in parts where a block ends."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        first, rest = True, record
        while first or rest:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if first else 4) if not rest else (2 if first else 3)
            out += struct.pack("<IHB", 0, len(part), kind) + part
            first = False
    return bytes(out)


@pytest.mark.parametrize("left", [0, 1, 6, 7, 8, 20])
def test_blocks_that_end_anywhere(left: int, tmp_path: Path, read_one: Any) -> None:
    before = framed(row(0, "2.5"))
    fill = BLOCK - len(before) - 7 - left
    (tmp_path / "run.wandb").write_bytes(framed(row(0, "2.5"), padded(fill), row(1, "NaN"), row(2, "3e-5")))
    trace, _, log = read_one(tmp_path / "run.wandb")
    assert trace.steps.tolist() == [0, 1, 2]
    assert repr(trace["loss"].tolist()[:2]) == "[2.5, nan]"
    assert not log.rules


def test_a_record_over_three_blocks(tmp_path: Path, read_one: Any) -> None:
    long = "[" + ", ".join(["0.25"] * 15_000) + "]"
    content = framed(row(0, "2.5"), row(1, long, "many"), row(2, "1.5"))
    assert len(content) > 2 * BLOCK
    (tmp_path / "run.wandb").write_bytes(content)
    assert read_one(tmp_path / "run.wandb")[0].steps.tolist() == [0, 2]


def test_what_was_begun_and_not_ended_is_dropped(tmp_path: Path, read_one: Any) -> None:
    begun = struct.pack("<IHB", 0, 3, 2) + b"abc"  # a writer that was killed, and one that went on
    whole = row(2, "1.5")
    (tmp_path / "run.wandb").write_bytes(framed(row(0, "2.5")) + begun + struct.pack("<IHB", 0, len(whole), 1) + whole)
    assert read_one(tmp_path / "run.wandb")[0].steps.tolist() == [0, 2]


@pytest.mark.parametrize("text", ["{", "", '"oops"'])
def test_values_that_are_refused(text: str, tmp_path: Path, read_one: Any) -> None:
    (tmp_path / "run.wandb").write_bytes(framed(row(0, "2.5"), row(1, text)))
    with pytest.raises(InputError, match=r"run\.wandb, record 2"):
        read_one(tmp_path / "run.wandb")
