"""Look-alikes: healthy runs that frighten detectors."""
