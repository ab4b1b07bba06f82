"""Proofs that a scenario shows its failure, and points of no return."""
