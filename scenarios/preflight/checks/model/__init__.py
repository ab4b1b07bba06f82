"""Checks of the model, by one pass or some training."""
