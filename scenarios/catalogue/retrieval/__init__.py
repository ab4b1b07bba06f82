"""Failures of models that answer after passages which they find in an index."""
