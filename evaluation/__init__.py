"""Data sets of labelled runs, detectors, their replay and their scores. Imports no torch."""
