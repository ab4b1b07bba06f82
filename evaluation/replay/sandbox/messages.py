"""Messages between the harness and a command: one line of JSON each way. docs/protocol.md has them in words.

JSON has no NaN and no infinity: they stand as the strings "NaN", "Infinity" and "-Infinity", as in the JSON form
of Protocol Buffers.
"""

import json
import math
import re
from typing import Any

from trainwreck.evaluation.detectors.base import Context, OutputError, Row, Verdict
from trainwreck.evaluation.replay.sandbox.process import FailedError, brief
from trainwreck.evaluation.replay.status import GARBAGE

VERSION = 1
ABOUT = {"name": str, "rule": str, "source": str, "blind_spots": str, "causes": list, "signals": list}


def hello() -> bytes:
    """The first line."""
    return _line({"type": "hello", "version": VERSION})


def reset(context: Context | None) -> bytes:
    """The line before a run."""
    return _line({"type": "reset", "context": _strict(context)})


def row(seen: Row) -> bytes:
    """The line of a row."""
    text = json.dumps({"type": "row", "row": seen}, separators=(",", ":"))
    # Keys are names of signals, values numbers: nowhere in a string can these words stand.
    return _NOT_JSON.sub(r'"\1"', text).encode() + b"\n"


_NOT_JSON = re.compile(r"(-?Infinity|NaN)")


def whole(buffer: bytearray) -> int:
    """Length of the line at the front of a buffer; 0 while it is not complete."""
    return buffer.find(b"\n") + 1


def answer(line: bytes, kind: str, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The object of an answer of a kind, known to have these keys and no others. Raises FailedError."""
    try:
        said = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise FailedError(GARBAGE, f"answered {brief(line)}; allowed: one line of JSON") from None
    if not isinstance(said, dict) or said.get("type") != kind:
        raise FailedError(GARBAGE, f'answered {brief(line)}; allowed: an object with "type": "{kind}"')
    missing = [key for key in required if key not in said]
    strange = [key for key in said if key not in ("type", *required, *optional)]
    if missing:
        raise FailedError(GARBAGE, f"{kind}: has no {missing[0]!r}")
    if strange:
        allowed = ", ".join(("type", *required, *optional))
        raise FailedError(GARBAGE, f"{kind}: {brief(strange[0].encode())} is not allowed; allowed: {allowed}")
    return said


def verdict(line: bytes, step: int) -> Verdict:
    """The verdict on the row of a step, not yet checked further. Raises FailedError, OutputError."""
    said = answer(line, "verdict", ("step", "score"), ("alarm", "causes"))
    about = said["step"]
    if type(about) is not int:
        raise FailedError(GARBAGE, f"step: {brief(json.dumps(about).encode())} is not allowed; allowed: {step}")
    if about != step:
        when = "past" if about < step else "future"
        raise FailedError(GARBAGE, f"step: {about} lies in the {when}; allowed: {step}, the step of the row")
    if isinstance(said["score"], bool):
        raise OutputError(f"score: {said['score']} is not allowed; allowed: a finite number")
    causes = said.get("causes", [])
    return Verdict(said["score"], said.get("alarm", False), tuple(causes) if isinstance(causes, list) else causes)


def about(line: bytes) -> dict[str, Any]:
    """What a command says of itself in its answer to `hello`. Raises FailedError."""
    said = answer(line, "hello", ("version",), tuple(ABOUT))
    if said["version"] != VERSION:
        raise FailedError(GARBAGE, f"version: {said['version']!r} is not allowed; allowed: {VERSION}")
    facts = {key: said[key] for key in ABOUT if key in said}
    for key, value in facts.items():
        fits = isinstance(value, ABOUT[key]) and all(isinstance(item, str) for item in value)
        if not fits:
            allowed = "text" if ABOUT[key] is str else "a list of texts"
            raise FailedError(GARBAGE, f"{key}: {brief(json.dumps(value).encode())} is not allowed; allowed: {allowed}")
    return facts


def _refuse(word: str) -> None:
    raise ValueError(word)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _strict(value: Any) -> Any:
    """The same in what JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, (list, tuple)) else value
