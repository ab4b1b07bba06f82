"""Next-token cross-entropy of stacked runs, with what a step logs of the logits."""

from trainwreck.kernels.cross_entropy.api import BucketLosses, TokenLosses, bucket_losses, cross_entropy

__all__ = ["BucketLosses", "TokenLosses", "bucket_losses", "cross_entropy"]
