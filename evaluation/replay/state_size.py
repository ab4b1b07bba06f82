"""How large an object's state is."""

import sys
from collections import deque
from collections.abc import Mapping

import numpy as np

CONTAINERS = (list, tuple, set, frozenset, deque)
SIMPLE = frozenset({int, float, bool, str, bytes, type(None), np.ndarray})


def state_bytes(subject: object) -> int:
    """Bytes of an object's attributes, through the built-in containers and arrays; shared parts once."""
    total, seen, left = 0, set(), list(getattr(subject, "__dict__", {}).values())
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        kind = type(value)
        if kind in SIMPLE:  # most of what there is, and telling the others apart takes longer
            continue
        if issubclass(kind, CONTAINERS):
            left.extend(value)
        elif isinstance(value, Mapping):
            left.extend(value.keys())
            left.extend(value.values())
        elif hasattr(value, "__dict__") and not callable(value):
            left.extend(value.__dict__.values())
    return total
