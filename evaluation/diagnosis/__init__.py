"""One run's log in, an answer out: whether something is wrong, since when, what it looks like, what to do next."""
