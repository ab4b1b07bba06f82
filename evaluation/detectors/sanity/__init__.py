"""Baselines: policies that look at nothing, and rules of one line."""
