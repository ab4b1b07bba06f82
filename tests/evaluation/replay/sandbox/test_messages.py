"""What goes over the wire to a command is what the schema in the package says, and strict JSON."""

import json
import math
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from trainwreck.evaluation.detectors.base import OutputError, normalise
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.rows import rows
from trainwreck.evaluation.replay.sandbox import messages
from trainwreck.evaluation.replay.sandbox.columns import batches
from trainwreck.evaluation.replay.sandbox.process import FailedError

SCHEMA: dict[str, Any] = json.loads(
    (files("trainwreck.evaluation.replay.sandbox") / "messages.schema.json").read_text(encoding="utf-8")
)


def fits(value: Any, rule: dict[str, Any]) -> bool:
    """Whether a value is valid by a rule of the schema."""
    return jsonschema.Draft202012Validator(SCHEMA | {"oneOf": [rule]}).is_valid(value)


def part(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def strict(line: bytes) -> Any:
    """The message of a line, by a reader that knows no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line, parse_constant=refuse)


def test_questions_are_what_the_schema_says(make_trace: Any) -> None:
    trace = make_trace("r", steps=30)
    trace["loss"][[3, 4, 5]] = math.nan, math.inf, -math.inf
    trace["head_entropy"][3] = math.nan
    context = {"lr": 0.1, "clip": math.inf, "layers": [1, math.nan], "name": "NaN", "none": None}
    lines = [messages.hello(), messages.reset(None), messages.reset(context)]
    lines += [messages.row(dict(row)) for row in rows(trace)]
    lines += [messages.end(), *(line for _, line in batches(trace, "full", 1, 8))]
    for line in lines:
        assert fits(strict(line), part("question"))
    assert strict(lines[2])["context"] == context | {"clip": "Infinity", "layers": [1, "NaN"]}
    assert repr(messages.numbers(strict(lines[2])["context"] | {"name": "n"})) == repr(context | {"name": "n"})
    seen = [strict(line)["row"] for line in lines[3:33]]
    assert [row["loss"] for row in seen[3:6]] == ["NaN", "Infinity", "-Infinity"]
    assert seen[3]["head_entropy"] == ["NaN"] * 4
    assert seen[0]["validation_loss"] is None
    assert [row["loss"] for row in seen[6:]] == trace["loss"][6:].tolist()  # every digit


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("about", {"type": "hello", "version": 1}),
    ("about", {"type": "hello", "version": 1, "name": "n", "rule": "r", "causes": ["high_lr"], "signals": ["loss"]}),
    ("about", {"type": "hello", "version": 1, "batches": True}),
    ("ready", {"type": "ready"}),
    ("ended", {"type": "ended"}),
    ("ended", {"type": "ended", "state_bytes": 12}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "nanoseconds": 900}),
    ("verdict", {"type": "verdict", "step": 7, "score": -1e30, "alarm": True, "causes": ["high_lr", "unknown"]}),
]
BAD: list[tuple[str, dict[str, Any]]] = [
    ("about", {"type": "hello"}),
    ("about", {"type": "hello", "version": "1"}),
    ("about", {"type": "hello", "version": 1, "signals": "loss"}),
    ("about", {"type": "hello", "version": 1, "causes": [1]}),
    ("about", {"type": "hello", "version": 1, "label": "n"}),
    ("about", {"type": "hello", "version": 1, "batches": 1}),
    ("ended", {"type": "ended", "state_bytes": -1}),
    ("ended", {"type": "ended", "state_bytes": True}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "nanoseconds": 0.5}),
    ("ready", {"type": "reddy"}),
    ("ready", {"type": "ready", "step": 1}),
    ("verdict", {"type": "verdict", "score": 1}),
    ("verdict", {"type": "verdict", "step": 7}),
    ("verdict", {"type": "verdict", "step": 7.5, "score": 1}),
    ("verdict", {"type": "verdict", "step": 7, "score": "1"}),
    ("verdict", {"type": "verdict", "step": 7, "score": True}),
    ("verdict", {"type": "verdict", "step": 7, "score": None}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "alarm": 1}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "causes": "high_lr"}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "causes": ["high_lr", "high_lr"]}),
    ("verdict", {"type": "verdict", "step": 7, "score": 1, "alram": True}),
]


def accepted(kind: str, answer: dict[str, Any]) -> bool:
    """Whether the harness takes an answer."""
    line = json.dumps(answer).encode() + b"\n"
    try:
        if kind == "about":
            messages.about(line)
        elif kind == "ready":
            messages.answer(line, "ready")
        elif kind == "ended":
            messages.state_bytes(line)
        else:
            normalise(messages.verdict(line, 7), threshold=None, known=None)
    except (FailedError, OutputError):
        return False
    return True


@pytest.mark.parametrize(("kind", "answer"), GOOD, ids=str)
def test_an_answer_that_the_schema_allows_is_taken(kind: str, answer: dict[str, Any]) -> None:
    assert fits(answer, part("answer"))
    assert fits(answer, part(kind))
    assert accepted(kind, answer)


@pytest.mark.parametrize(("kind", "answer"), BAD, ids=str)
def test_an_answer_that_the_schema_does_not_allow_is_not(kind: str, answer: dict[str, Any]) -> None:
    assert not fits(answer, part("answer"))
    assert not accepted(kind, answer)


def test_a_failure_is_told_as_its_kind_and_nothing_else_as_one() -> None:
    for facts, kind in (
        ({"reason": "no\nweights"}, "crashed: no weights"),
        ({"kind": "garbage", "reason": "r"}, "garbage: r"),
        ({"kind": "tired", "reason": "r"}, None),
        ({"reason": 7}, None),
        ({}, None),
    ):
        answer = {"type": "failed"} | facts
        assert fits(answer, part("answer")) == (kind is not None)
        with pytest.raises(FailedError) as caught:
            messages.verdict(json.dumps(answer).encode(), 7)
        assert str(caught.value) == kind if kind else caught.value.kind == "garbage"
        assert caught.value.alive == (kind is not None)
    with pytest.raises(InputError, match="no such file"):
        messages.about(b'{"type": "failed", "kind": "input", "reason": "no such file"}')


def test_the_schema_has_the_version_that_is_spoken() -> None:
    for name in ("hello", "about"):
        assert SCHEMA["$defs"][name]["properties"]["version"] == {"const": messages.VERSION}
    assert set(SCHEMA["$defs"]["about"]["properties"]) == {"type", "version", "batches", *messages.ABOUT}
