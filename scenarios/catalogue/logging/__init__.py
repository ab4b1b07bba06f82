"""Logs that are wrong while training is right."""
