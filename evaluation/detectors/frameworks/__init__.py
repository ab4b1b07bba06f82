"""Monitors that ship with training frameworks, with their published defaults."""
