"""Tokens written one after the other, with keys and values of earlier ones in a cache."""
