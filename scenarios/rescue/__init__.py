"""Rescue: policies that act on training runs under way, and what they save."""
