"""Where rows come from: the synthetic language with an exact entropy, real text, and data of the other objectives."""
