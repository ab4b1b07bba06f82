"""The profile `logged`: a way of logging for each run, the rows that it leaves, and when they show a failure."""
