"""Runs of the world with labels that people gave them: detectors scored as far as such labels go."""
