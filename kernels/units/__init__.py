"""What stands between the products of a layer: norms, GELU, and a look at the stream; and an MLP as a whole."""

from trainwreck.kernels.units.api import affine, describe, gelu, gelu_mlp, norm, product

__all__ = ["affine", "describe", "gelu", "gelu_mlp", "norm", "product"]
