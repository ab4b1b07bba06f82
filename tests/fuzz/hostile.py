"""Values that break what was not written with them in mind, for random edits."""

import copy
import random
from typing import Any

TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[31mred",
    "two\nlines",
    "\ud800",
    "é" * 300,
    "a" * 100_000,
    "../../etc/passwd",
    "/etc/passwd",
    "NaN",
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.hit=1">',
    "' onmouseover='window.hit=1",
    "javascript:window.hit=1",
    "${7*7}",
    "{{ 7 * 7 }}",
    "`${window.hit=1}`",
    "$\\frac{$",
    "=1+1",
    "@SUM(A1)",
    "-2+3",
    "+1",
    "\t=1",
    "%s%n",
    "[" * 5000,
    "{" * 5000,
    "1" * 5000,
    '{"a": NaN}',
    "null",
    "[]",
    "{}",
    "-1",
)
NUMBERS = (0, 1, -1, -3, 7, 2**31 - 1, 2**31, 2**63 - 1, 10**40, 0.5, 1e400, float("nan"), -0.0)


def value(draw: random.Random) -> Any:
    """A scalar or a small JSON value."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.choice(NUMBERS)
    if kind == 2:
        return draw.choice([[], {}, [[]], {"a": {}}, [None], {"": None}])
    return draw.choice(TEXTS)


def deep(levels: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def mutated(draw: random.Random, content: Any) -> Any:
    """JSON with one node that is another, missing, doubled or moved."""
    nodes: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in items:
            nodes.append((node, key))
            if len(nodes) < 5000:
                visit(child)

    visit(content)
    if not nodes:
        return value(draw)  # an earlier edit left nothing to edit
    # The nodes near the root are few: half of the edits are of those.
    near = [(content, key) for key in content] if isinstance(content, dict) else nodes
    parent, key = draw.choice(near if draw.random() < 0.5 and near else nodes)
    what = draw.randrange(5)
    if what == 0:
        del parent[key]
    elif what == 1:
        parent[key] = value(draw)
    elif what == 2 and isinstance(parent, dict):
        parent[draw.choice(TEXTS)] = parent.pop(key)
    elif what == 3 and isinstance(parent, list):
        parent.insert(key, parent[key])
    else:
        other, place = draw.choice(nodes)
        parent[key] = copy.deepcopy(other[place])
    return content
