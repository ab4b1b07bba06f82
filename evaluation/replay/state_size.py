"""How large an object's state is."""

import sys
from collections import deque
from collections.abc import Mapping


def state_bytes(subject: object) -> int:
    """Bytes of an object's attributes, through the built-in containers and arrays; shared parts once."""
    total, seen, queue = 0, set(), deque(getattr(subject, "__dict__", {}).values())
    while queue:
        value = queue.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, Mapping):
            queue.extend([*value.keys(), *value.values()])
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            queue.extend(value)
        elif hasattr(value, "__dict__") and not callable(value):
            queue.extend(value.__dict__.values())
    return total
