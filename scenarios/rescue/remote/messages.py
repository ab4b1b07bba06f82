"""Messages between an episode and a policy's process, lines of JSON. docs/rescue.md has them in words.

`hello` and its answer, numbers that JSON does not have, and `failed` are those of detectors.
"""

import json
from collections.abc import Sequence
from typing import Any

from trainwreck.evaluation.detectors.base import OutputError
from trainwreck.evaluation.errors import printable
from trainwreck.evaluation.replay.alarms import GARBAGE
from trainwreck.evaluation.replay.sandbox.messages import answer, row
from trainwreck.evaluation.replay.sandbox.process import FailedError, brief
from trainwreck.scenarios.rescue.observation import Observation

LONGEST = 200  # characters of an action, or of a cause
MOST_CAUSES = 20
END = b'{"type":"end"}\n'
_compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def reset(seed: int) -> bytes:
    """The line before an episode."""
    return _compact({"type": "reset", "seed": seed}).encode() + b"\n"


def observation(seen: Observation, signals: Sequence[str]) -> bytes:
    """The question before a block. signals: that its rows have."""
    rows = (row({"step": one["step"]} | {name: one.get(name) for name in signals}) for one in seen.rows)
    facts = {
        "type": "observation",
        "step": seen.step,
        "planned": seen.planned,
        "spent": seen.spent,
        "rolled_back": seen.rolled_back,
        "answer": seen.answer,
    }
    head = _compact(facts).encode()[:-1]
    return head + b',"rows":[' + b",".join(one[len(_ROW) : -len(b"}\n")] for one in rows) + b"]}\n"


_ROW = b'{"type":"row","row":'


def action(line: bytes, step: int) -> tuple[str, tuple[str, ...] | None]:
    """The action before a step, as text that is still to be read, and causes where it names them.

    Raises FailedError, and OutputError for text that is too long and causes that are none.
    """
    reply = answer(line, "action", ("step", "action"), ("causes",))
    about, text = reply["step"], reply["action"]
    if type(about) is not int or about != step:
        found = brief(json.dumps(about).encode())
        raise FailedError(GARBAGE, f"step: {found} is not allowed; allowed: {step}, the step of the observation")
    if not isinstance(text, str) or len(text) > LONGEST:
        found = brief(json.dumps(text).encode())
        raise OutputError(f"action: {found} is not allowed; allowed: a text of {LONGEST} characters")
    return text, causes(reply)


def ended(line: bytes) -> tuple[str, ...] | None:
    """The causes in the answer to `end`, where it names them. Raises FailedError, OutputError."""
    return causes(answer(line, "ended", (), ("causes",)))


def causes(reply: dict[str, Any]) -> tuple[str, ...] | None:
    """Those of an answer, None where it has none. Raises OutputError."""
    found = reply.get("causes")
    if found is None:
        return None
    texts = isinstance(found, list) and all(isinstance(one, str) and len(one) <= LONGEST for one in found)
    if not texts or len(found) > MOST_CAUSES:
        shown = brief(json.dumps(found).encode())
        raise OutputError(f"causes: {shown} is not allowed; allowed: a list of up to {MOST_CAUSES} cause ids")
    return tuple(printable(one) for one in found)
