"""Next-token cross-entropy of stacked runs, with what a step logs of the logits."""

from trainwreck.kernels.cross_entropy.api import bucket_losses, cross_entropy
from trainwreck.kernels.cross_entropy.losses import BucketLosses, TokenLosses

__all__ = ["BucketLosses", "TokenLosses", "bucket_losses", "cross_entropy"]
