"""Real runs with labels written by people: the scores of detectors that such labels allow."""
