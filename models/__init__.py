"""Stacked transformers and stacked optimizers: N runs side by side in every tensor."""
