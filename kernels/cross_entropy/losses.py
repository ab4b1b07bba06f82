"""What the loss kernels give back. N runs, M tokens of a run."""

from typing import NamedTuple

from torch import Tensor


class TokenLosses(NamedTuple):
    """Of every token, in the accumulation dtype.

    nll_NM: -ln p(target), nats. log_z_NM: log of the softmax's denominator, nats. largest_NM: largest
    magnitude of a logit, NaN where there is a NaN; None where it was not asked for; has no gradient.
    """

    nll_NM: Tensor
    log_z_NM: Tensor
    largest_NM: Tensor | None = None


class BucketLosses(NamedTuple):
    """Weighted mean of the loss, nats a token; NaN for a bucket without weight.

    position: by equal parts of the row. age: by bucket of the target's age.
    """

    position: Tensor
    age: Tensor
