"""Checks of the batch alone."""
