"""Runs on pairs of answers, and how the preference for one of them goes wrong."""
