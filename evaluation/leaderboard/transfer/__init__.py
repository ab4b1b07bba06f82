"""Whether a board carries over to another: the order of its detectors, and its thresholds."""
