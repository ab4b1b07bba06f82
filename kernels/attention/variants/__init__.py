"""Attention that is wrong on purpose, each in a file, in plain PyTorch."""
