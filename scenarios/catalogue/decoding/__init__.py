"""Failures of tokens that a model writes by itself: of the cache that it writes from, and of what it learnt to read."""
