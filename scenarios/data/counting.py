"""A second kind of data beside the language: counting, as regular as tables or source code.

    40 41 42 43 57 58 59 60 ...

Every token is the successor of the one before; now and then one is drawn at random.
"""

import numpy as np

from trainwreck.scenarios.data.sources.language import Rows


def counting(draw: np.random.Generator, rows: int, context: int, table: int, slip: float = 0.05) -> Rows:
    """Rows of the upper half of a token table, each array [B, T + 1]; one document a row.

    table: size of the token table; the chain dialect keeps to the lower half. slip: how often a token is
    drawn at random.
    """
    first, size = table // 2, table - table // 2
    shape = (rows, context + 1)
    hop = np.where(draw.random(shape) < slip, draw.integers(0, size, shape), 1)
    start = draw.integers(0, size, (rows, 1))
    tokens = first + (start + np.cumsum(hop, 1)) % size
    nats = -np.log(slip / size + (1 - slip) * (hop % size == 1))
    nats[:, 0] = 0.0  # given
    return Rows(tokens, np.zeros(shape, np.int64), nats, np.zeros(shape, np.int8))
