"""A float32 as text: the shortest that reads back as the same float32."""

import numpy as np


def cell(value: float) -> str:
    """
    >>> cell(float(np.float32(0.1))), cell(float("inf")), cell(float("nan")), cell(3e-45)
    ('0.1', 'inf', 'nan', '3e-45')
    """
    return str(np.float32(value))
