"""Change-point and outlier detectors that know nothing of training, each raw and behind a shared gate."""
