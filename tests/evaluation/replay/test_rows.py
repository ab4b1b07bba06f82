"""A row is a dict in every respect, and fetches no more than is asked for."""

import copy
import json
import pickle
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
import pytest

from trainwreck.evaluation.dataset.schema import EVALUATIONS
from trainwreck.evaluation.dataset.trace import Trace
from trainwreck.evaluation.replay.rows import BLOCK, NAMES, LoggedRow, only, rows

STEPS = BLOCK + 6


@pytest.fixture
def trace(make_trace: Any) -> Trace:
    made: Trace = make_trace("r", steps=STEPS, kl=np.ones(STEPS))
    made["fresh_loss"][:] = np.nan
    made["fresh_loss"][19] = 2.5
    return made


def eager(trace: Trace, step: int) -> dict[str, Any]:
    """The row as a plain dict, by the words of the protocol."""
    row: dict[str, Any] = {"step": step} | {name: trace[name][step].tolist() for name in NAMES}
    known = {"validation_loss": bool(trace.evaluated[step]), "fresh_loss": step == 19}
    return row | {name: None for name in EVALUATIONS if not known.get(name, True)}


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """What a change gives back, and what it leaves, in order."""
    return lambda row: (change(row), list(row.items()))


def joined(row: dict[str, Any]) -> object:
    row |= {"loss": 1.0, "mine": 2}
    return list(row.items())


def late(row: dict[str, Any]) -> object:
    """Changed before the whole row was read."""
    row["mine"], row["loss"] = 1, -1.0
    row["head_entropy"].append(7.0)
    return list(row.items())


USES: dict[str, Callable[[dict[str, Any]], object]] = {
    "dict": lambda row: list(dict(row).items()),
    "unpacked": lambda row: list({**row}.items()),
    "as keywords": lambda row: list(dict(**row).items()),
    "list": list,
    "set": lambda row: sorted(set(row)),  # the order of a set is not that of what it was made of
    "sorted": sorted,
    "len": len,
    "bool": bool,
    "repr": repr,
    "str": str,
    "items": lambda row: list(row.items()),
    "keys": lambda row: list(row.keys()),
    "values": lambda row: list(row.values()),
    "reversed": lambda row: list(reversed(row)),
    "json": json.dumps,
    "json, sorted": lambda row: json.dumps(row, sort_keys=True, indent=1),
    "pickle": lambda row: list(pickle.loads(pickle.dumps(row)).items()),
    "copy": lambda row: list(copy.copy(row).items()),
    "deepcopy": lambda row: list(copy.deepcopy(row).items()),
    "its own copy": lambda row: list(row.copy().items()),
    "or": lambda row: list((row | {"loss": 0.0}).items()),
    "or, right": lambda row: list(({"mine": 0.0} | row).items()),
    "or, in place": joined,
    "fromkeys": lambda row: list(dict.fromkeys(row).items()),
    "updates another": lambda row: sorted({"mine": 1}.keys() | row.keys()),
    "get": lambda row: [row.get("loss"), row.get("no", 3), row.get("no"), row.get("validation_loss", 3)],
    "in": lambda row: ["loss" in row, "step" in row, "no" in row, 7 in row],
    "itemgetter": itemgetter("loss", "step", "head_entropy"),
    "pattern": lambda row: next(found for found in [row] if isinstance(found, dict))["loss"],
    "del": changed(lambda row: row.__delitem__("loss")),
    "pop": changed(lambda row: row.pop("loss")),
    "pop, default": changed(lambda row: row.pop("no", 1)),
    "popitem": changed(lambda row: row.popitem()),
    "setdefault": changed(lambda row: [row.setdefault("loss", 9.0), row.setdefault("mine", 9.0)]),
    "update": changed(lambda row: row.update(loss=1.0, mine=2)),
    "clear": changed(lambda row: row.clear()),
    "set item": changed(lambda row: row.__setitem__("loss", 3.0)),
    "set late": late,
    "formatted": "{loss} {step}".format_map,
}


@pytest.mark.parametrize("step", [0, 19, BLOCK + 3])
@pytest.mark.parametrize("use", USES)
def test_it_does_what_a_dict_does(use: str, step: int, trace: Trace) -> None:
    row = list(rows(trace))[step]
    expected = eager(trace, step)
    assert type(row) is LoggedRow
    assert repr(USES[use](row)) == repr(USES[use](expected))
    assert row == expected
    assert (row != expected) is False


def test_rows_that_nobody_read_are_equal_where_their_numbers_are(trace: Trace) -> None:
    first, *_, last = rows(trace)
    assert first == next(rows(trace))
    assert (first != next(rows(trace))) is False
    assert first != last


@pytest.mark.parametrize("step", [0, 19, BLOCK + 3])
@pytest.mark.parametrize("use", USES)
def test_a_row_of_some_signals_does_what_a_dict_does(use: str, step: int, trace: Trace) -> None:
    shown = ("loss", "head_entropy", "validation_loss")
    row = list(only(rows(trace), shown))[step]
    expected = {name: value if name in ("step", *shown) else None for name, value in eager(trace, step).items()}
    assert type(row) is LoggedRow
    assert repr(USES[use](row)) == repr(USES[use](expected))
    assert row == expected


def test_a_signal_that_is_not_shown_is_none_when_it_alone_is_read(trace: Trace) -> None:
    row = next(only(rows(trace), ("loss",)))
    assert row["grad_norm"] is None
    assert row.get("grad_norm", 1.0) is None
    assert row["loss"] == trace["loss"][0]


def test_a_row_that_was_changed_is_shown_as_it_is(trace: Trace) -> None:
    row = next(rows(trace))
    row["loss"] = -1.0
    assert next(only([row], ("loss",))) == dict.fromkeys(row) | {"step": 0, "loss": -1.0}


def test_a_name_that_no_signal_has_is_a_key_error(trace: Trace) -> None:
    row = next(rows(trace))
    for name in ("no", 7, ("loss",)):
        with pytest.raises(KeyError):
            row[name]  # type: ignore[index]
    dict(row)
    with pytest.raises(KeyError):
        row["no"]


def test_what_was_deleted_stays_away(trace: Trace) -> None:
    row = next(rows(trace))
    del row["loss"]
    assert row.get("loss") is None
    assert "loss" not in row
    with pytest.raises(KeyError):
        row["loss"]


def test_only_what_is_asked_for_is_read(trace: Trace) -> None:
    requests = []

    class Watched(dict[str, np.ndarray]):
        def get(self, name: str, default: Any = None) -> Any:
            requests.append(name)
            return super().get(name, default)

    trace.signals = Watched(trace.signals)
    for row in rows(trace):
        assert row["loss"] == row.get("loss")
        assert "grad_norm" in row
    assert requests == ["loss"] * 2, "once a block"


def test_lists_are_each_rows_own(trace: Trace) -> None:
    for row in rows(trace):
        row["head_entropy"].clear()
    assert all(len(row["head_entropy"]) for row in rows(trace))
