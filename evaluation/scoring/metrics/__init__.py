"""The metrics of the scoring specification: pure functions over arrays, one entry a run."""
