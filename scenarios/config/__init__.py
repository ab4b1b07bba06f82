"""The configuration of a run: settings, sizes, and the learning-rate schedule."""
