"""Runs that are trained by rewards of their own answers, and how that goes wrong."""
