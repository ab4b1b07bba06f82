"""Batches: rows of a source, what is done to them, and which of them runs share."""
