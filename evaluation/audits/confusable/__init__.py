"""Causes that the signals of a profile cannot tell apart."""
