"""Failures of models of more than one modality."""
