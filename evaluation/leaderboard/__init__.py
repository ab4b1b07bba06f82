"""Many detectors on one data set: replay, ranking, cache, stored alarms and submissions."""
