"""Where tokens come from: the synthetic language with an exact entropy, and real text."""
