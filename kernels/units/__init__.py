"""What stands between the products of a layer: norms, GELU, and a look at the stream."""

from trainwreck.kernels.units.api import affine, describe, gelu, norm

__all__ = ["affine", "describe", "gelu", "norm"]
