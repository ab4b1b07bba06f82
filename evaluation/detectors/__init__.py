"""Detectors: the protocol, the registry, and every built-in detector in a folder of its kind."""
