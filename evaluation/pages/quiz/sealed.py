"""Text that can't be read in a page's source, and is opened by the page's own script.

The key is made of words that stand in the page, so this keeps nobody out who runs that script by hand: it is a
cover, not a lock. What must stay secret stays out of the page (`trainwreck quiz --sealed`).

    key    = SHA-256 of "quiz id/what/run number"
    stream = SHA-256(key + 0), SHA-256(key + 1) ..., the counter as 4 bytes, big end first
    sealed = base64 of (zlib of the JSON) xor stream

`open.js` is the inverse. Browser's own ciphers are not at hand in a page that comes over plain http from a teacher's
laptop; so the one hash that checks exports makes the stream too.
"""

import base64
import hashlib
import json
import zlib
from typing import Any

import numpy as np


def seal(content: Any, name: str) -> str:
    """A JSON-safe value as a line of base64. name: "quiz id/what/run number"."""
    packed = zlib.compress(json.dumps(content, separators=(",", ":"), allow_nan=False).encode(), 9)
    return base64.b64encode(_covered(packed, name)).decode()


def unseal(text: str, name: str) -> Any:
    """The inverse of `seal`; ValueError for another name or a damaged text.

    >>> unseal(seal({"cause": "high_lr"}, "abc/truth/1"), "abc/truth/1")
    {'cause': 'high_lr'}
    """
    try:
        return json.loads(zlib.decompress(_covered(base64.b64decode(text, validate=True), name)))
    except zlib.error as error:
        raise ValueError(f"not sealed under the name {name!r}") from error


def _covered(data: bytes, name: str) -> bytes:
    key = hashlib.sha256(name.encode()).digest()
    blocks = range(-(-len(data) // 32))
    stream = b"".join(hashlib.sha256(key + block.to_bytes(4, "big")).digest() for block in blocks)
    return (np.frombuffer(data, np.uint8) ^ np.frombuffer(stream, np.uint8)[: len(data)]).tobytes()
