"""Rows of a recorded run through a detector, under an observation profile."""
