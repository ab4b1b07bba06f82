"""Stored alarms: nothing that a score asks for is lost, and no other file is taken for one."""

import dataclasses
import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard import stored_alarms
from trainwreck.evaluation.leaderboard.stored_alarms import KEY, read_alarms, reduced, write_alarms
from trainwreck.evaluation.replay.replay import Alarms, rising_edges
from trainwreck.evaluation.scoring.metrics.recall import firsts_above, peak, threshold_range

FACTS: dict[str, Any] = {
    "detector": "mine.py:Mine", "profile": "full", "track": "blind", "k": 10, "telemetry": "0" * 64,
    "about": {"rule": "a rule"},
}  # fmt: skip
SCORES = st.lists(st.sampled_from([-1e300, -3.0, 0.0, 0.1, 0.30000000000000004, 2.0, 1e300]), max_size=12)


def said(scores: list[float], run_id: str = "r", every: int = 1) -> Alarms:
    steps, values = np.arange(len(scores)) * every, np.array(scores, dtype=np.float64)
    alarm = values > 1.0
    edges = rising_edges(steps, alarm)
    first = int(edges[0]) if len(edges) else None
    named = ("high_lr", "unknown") if first is not None else ()
    answers = ((first, named),) if first is not None else ()
    return Alarms(run_id, steps, values, alarm, edges, first, named, "ok", 1.5, 100, answers=answers)


def test_examples_in_docstrings_run() -> None:
    found = doctest.testmod(stored_alarms)
    assert found.attempted
    assert not found.failed


@given(streams=st.lists(SCORES, min_size=1, max_size=5), onset=st.integers(0, 12), length=st.integers(0, 12))
def test_whatever_a_threshold_asks_for_is_kept(streams: list[list[float]], onset: int, length: int) -> None:
    whole = [said(scores, every=3) for scores in streams]
    kept = [reduced(one) for one in whole]
    steps, scores = [[one.steps for one in part] for part in (whole, kept)], [
        [one.scores for one in part] for part in (whole, kept)
    ]  # fmt: skip
    assert peak(scores[0]).tolist() == peak(scores[1]).tolist()
    values = sorted({-np.inf, *(value for stream in streams for value in stream)})
    thresholds = np.array([*values, *(np.nextafter(values, -np.inf)), np.inf])
    for i, threshold in enumerate(thresholds.tolist()):
        expected = [
            next((float(step) for step, score in zip(at, values, strict=True) if score > threshold), np.inf)
            for at, values in zip(steps[0], scores[0], strict=True)
        ]
        assert [firsts_above(steps[part], scores[part], thresholds)[i].tolist() for part in range(2)] == [expected] * 2
    clocks = [np.full(len(streams), 3.0 * step) for step in (onset, onset + length)]
    ranges = [threshold_range(steps[part], scores[part], *clocks) for part in range(2)]
    assert [one.tolist() for one in ranges[0]] == [one.tolist() for one in ranges[1]]
    assert [one.rows for one in kept] == [one.rows for one in whole]
    assert [one.last_judged for one in kept] == [one.last_judged for one in whole]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    alarms = [said([0.5, 0.5, 3.0], "b"), said([], "c"), said([0.1, 0.2, 0.1], "a")]
    write_alarms(tmp_path / "x.parquet", alarms, **FACTS)
    found = read_alarms(tmp_path / "x.parquet")
    assert {name: getattr(found, name) for name in FACTS} == FACTS
    assert [one.run_id for one in found.alarms] == ["a", "b", "c"], "in an order that is independent of labels"
    for one in alarms:
        expected = reduced(one).to_dict(scores=True)
        kept = next(other for other in found.alarms if other.run_id == one.run_id)
        assert kept.to_dict(scores=True) == expected
        assert kept.answers == one.answers


def test_a_file_of_the_first_version_is_read_without_causes_by_threshold(tmp_path: Path) -> None:
    def of_old(table: pa.Table) -> pa.Table:
        return table.drop_columns(["answer_steps", "answer_causes"])

    found = read_alarms(changed(tmp_path / "x.parquet", of_old, version=1))
    assert found.version == 1
    assert found.alarms[0].answers == ()
    assert found.alarms[0].causes == ("high_lr", "unknown")


def test_the_same_alarms_give_the_same_bytes(tmp_path: Path) -> None:
    alarms = [said([0.5, 3.0], "b"), said([0.1], "a")]
    write_alarms(tmp_path / "x.parquet", alarms, **FACTS)
    write_alarms(tmp_path / "y.parquet", alarms[::-1], **FACTS)
    assert (tmp_path / "x.parquet").read_bytes() == (tmp_path / "y.parquet").read_bytes()


def changed(path: Path, change: Any, **facts: Any) -> Path:
    """The file of one run with its table or facts changed."""
    write_alarms(path, [said([0.5, 3.0])], **FACTS)
    table = pq.read_table(path)
    known = json.loads(table.schema.metadata[KEY]) | facts
    pq.write_table(change(table).replace_schema_metadata({KEY: json.dumps(known)}), path)
    return path


def as_floats(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("edges")
    return table.set_column(place, "edges", pa.array([[float("nan")]], pa.list_(pa.float64())))


def emptied(name: str, value: Any) -> Any:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array([value], table.schema.field(name).type))

    return change


def same(table: pa.Table) -> pa.Table:
    return table


@pytest.mark.parametrize(
    ("change", "facts", "complaint"),
    [
        (same, {"version": 3}, "alarms version 3 is not allowed; allowed: 1, 2"),
        (same, {"format": "other"}, "not alarms of Trainwreck"),
        (same, {"detector": ""}, "detector: '' is not allowed; allowed: str"),
        (same, {"k": True}, "k: True is not allowed; allowed: int"),
        (same, {"about": []}, r"about: \[\] is not allowed; allowed: dict"),
        (lambda table: table.drop_columns(["causes"]), {}, "damaged, it has no column causes"),
        (as_floats, {}, r"column edges: type list<element: double> is not allowed; allowed: list<"),
        (emptied("run_id", None), {}, "column run_id: an empty value"),
        (emptied("rise_steps", [None]), {}, "column rise_steps: an empty value"),
    ],
)
def test_a_file_that_is_wrong_is_one_line_that_names_it(
    change: Any, facts: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    path = changed(tmp_path / "x.parquet", change, **facts)
    with pytest.raises(InputError, match=complaint) as error:
        read_alarms(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_what_is_no_alarms_at_all(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("alarms")
    pq.write_table(pa.table({"run_id": ["r"]}), tmp_path / "other.parquet")
    for name, complaint in (
        ("text.parquet", "damaged, not Parquet"),
        ("other.parquet", "not alarms of Trainwreck"),
        ("none.parquet", "is not a file"),
    ):
        with pytest.raises(InputError, match=complaint) as error:
            read_alarms(tmp_path / name)
        assert "\n" not in str(error.value)


def test_texts_of_others_are_cleaned(tmp_path: Path) -> None:
    one = dataclasses.replace(said([1.0]), status="crashed: \x1b[2J", stderr=("\x1b]0;t\x07",))
    facts = FACTS | {"detector": "mine\x1b[31m", "about": {"rule": "\x1b[5m", "causal": True}}
    write_alarms(tmp_path / "a.parquet", [one], **facts)
    found = read_alarms(tmp_path / "a.parquet")
    assert (found.detector, found.about) == ("mine", {"rule": "", "causal": True})
    assert (found.alarms[0].status, found.alarms[0].stderr) == ("crashed:", ("",))
