"""State, resume and evaluation."""
