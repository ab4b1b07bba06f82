"""Optimisation."""
