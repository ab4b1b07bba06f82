"""Messages between the harness and a detector's process, lines of JSON. docs/protocol.md has them in words.

JSON has no NaN and no infinity: they are written as the strings "NaN", "Infinity" and "-Infinity", as in the JSON form
of Protocol Buffers.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from trainwreck.evaluation.detectors.base import Context, OutputError, Row, Verdict
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.replay.alarms import CRASHED, FAILURES_OF_A_DETECTOR, GARBAGE, MEMORY
from trainwreck.evaluation.replay.sandbox.process import FailedError, brief

VERSION = 1
ABOUT = {"name": str, "rule": str, "source": str, "blind_spots": str, "causes": list, "signals": list}
INPUT = "input"  # the kind of failure of a detector that can not be loaded


def hello() -> bytes:
    """The first line."""
    return _line({"type": "hello", "version": VERSION})


def reset(context: Context | None) -> bytes:
    """The line before a run."""
    return _line({"type": "reset", "context": _strict(context)})


def row(seen: Row) -> bytes:
    """The line of a row."""
    text = json.dumps({"type": "row", "row": seen}, separators=(",", ":"))
    # Keys are names of signals, values numbers: these words cannot occur in a string.
    return _NOT_JSON.sub(r'"\1"', text).encode() + b"\n"


_NOT_JSON = re.compile(r"(-?Infinity|NaN)")


def end() -> bytes:
    """The line after a run, for a process that takes batches."""
    return _line({"type": "end"})


def answer(line: bytes, kind: str, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The object of an answer of a kind, known to have these keys and no others.

    Raises FailedError, and InputError where it failed on what it was asked to load.
    """
    try:
        reply = _READER.decode(line.decode())
    except (ValueError, RecursionError):
        raise FailedError(GARBAGE, f"answered {brief(line)}; allowed: one line of JSON") from None
    if isinstance(reply, dict) and reply.get("type") == "failed" and kind != "failed":
        raise _failure(line)
    if not isinstance(reply, dict) or reply.get("type") != kind:
        raise FailedError(GARBAGE, f'answered {brief(line)}; allowed: an object with "type": "{kind}"')
    missing = [key for key in required if key not in reply]
    strange = [key for key in reply if key not in ("type", *required, *optional)]
    if missing:
        raise FailedError(GARBAGE, f"{kind}: has no {missing[0]!r}")
    if strange:
        allowed = ", ".join(("type", *required, *optional))
        raise FailedError(GARBAGE, f"{kind}: {brief(strange[0].encode())} is not allowed; allowed: {allowed}")
    return reply


def verdict(line: bytes, step: int) -> Verdict:
    """The verdict on the row of a step, not yet checked further.

    What it says of its own time is not used: it is measured from outside. Raises FailedError, OutputError.
    """
    reply = answer(line, "verdict", ("step", "score"), ("alarm", "causes", "nanoseconds"))
    about = reply["step"]
    if type(about) is not int:
        raise FailedError(GARBAGE, f"step: {brief(json.dumps(about).encode())} is not allowed; allowed: {step}")
    if about != step:
        when = "past" if about < step else "future"
        raise FailedError(GARBAGE, f"step: {about} lies in the {when}; allowed: {step}, the step of the row")
    if isinstance(reply["score"], bool):
        raise OutputError(f"score: {reply['score']} is not allowed; allowed: a finite number")
    _count(reply, "nanoseconds")  # of older detectors
    causes = reply.get("causes", [])
    causes = tuple(causes) if isinstance(causes, list) else causes
    return Verdict(reply["score"], reply.get("alarm", False), causes)


def about(line: bytes) -> tuple[dict[str, Any], bool]:
    """What a detector says of itself in its answer to `hello`, and whether it takes batches of rows.

    Raises FailedError, InputError.
    """
    reply = answer(line, "hello", ("version",), ("batches", *ABOUT))
    if reply["version"] != VERSION:
        raise FailedError(GARBAGE, f"version: {reply['version']!r} is not allowed; allowed: {VERSION}")
    facts = {key: reply[key] for key in ABOUT if key in reply}
    for key, value in facts.items():
        fits = isinstance(value, ABOUT[key]) and all(isinstance(item, str) for item in value)
        if not fits:
            allowed = "text" if ABOUT[key] is str else "a list of texts"
            raise FailedError(GARBAGE, f"{key}: {brief(json.dumps(value).encode())} is not allowed; allowed: {allowed}")
        facts[key] = printable(value) if ABOUT[key] is str else [printable(item) for item in value]
    batches = reply.get("batches", False)
    if not isinstance(batches, bool):
        found = brief(json.dumps(batches).encode())
        raise FailedError(GARBAGE, f"batches: {found} is not allowed; allowed: true, false")
    return facts, batches


def state_bytes(line: bytes) -> int | None:
    """Size of the detector's state in the answer to `end`. Raises FailedError."""
    return _count(answer(line, "ended", (), ("state_bytes",)), "state_bytes")


def numbers(context: Any) -> Any:
    """The context of `reset` with the numbers that JSON does not have."""
    if isinstance(context, str) and _NOT_JSON.fullmatch(context):
        return float(context)
    if isinstance(context, dict):
        return {key: numbers(item) for key, item in context.items()}
    return [numbers(item) for item in context] if isinstance(context, list) else context


def _failure(line: bytes) -> Exception:
    reply = answer(line, "failed", ("reason",), ("kind",))
    kind, reason = reply.get("kind", CRASHED), reply["reason"]
    if kind not in (INPUT, *FAILURES_OF_A_DETECTOR) or not isinstance(reason, str):
        return FailedError(GARBAGE, f"answered {brief(line)}; allowed: a kind of failure and a reason")
    reason = printable(reason)
    # After it ran out of memory it may be in any state.
    return InputError(reason) if kind == INPUT else FailedError(kind, reason, alive=kind != MEMORY)


def _count(reply: Mapping[str, Any], key: str) -> int | None:
    value = reply.get(key)
    if value is not None and (type(value) is not int or value < 0):
        raise FailedError(GARBAGE, f"{key}: {brief(json.dumps(value).encode())} is not allowed; allowed: 0 and more")
    return value


def _refuse(word: str) -> None:
    raise ValueError(word)


_READER = json.JSONDecoder(parse_constant=_refuse)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _strict(value: Any) -> Any:
    """The same in what JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, (list, tuple)) else value
