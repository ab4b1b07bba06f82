"""Faulty on purpose: softmax without subtracting the row maximum, so a score of 89 is infinite.

e**s overflows float32 past 88.7 and makes the row inf / inf = NaN; in float16 the weights that meet v
overflow past 11.1 already. A row whose scores are all under -103 is 0 / 0.
"""

from functools import partial

import torch

from trainwreck.kernels.attention import online

attention = partial(online.attention, shift=torch.zeros_like, keep=lambda out: out)
