"""A proven scenario as one plain PyTorch file that needs nothing of this package."""
