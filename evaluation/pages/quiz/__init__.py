"""Guess the failure: runs that people judge step by step, scored as detectors are."""
