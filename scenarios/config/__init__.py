"""The configuration of a run: settings, sizes, healthy setups that scenarios share, and the learning-rate schedule."""
