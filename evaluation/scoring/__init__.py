"""The scorecard of one detector: outcomes, metrics, intervals and breakdowns."""
