"""Training loops that speed is measured against: one run after another, and several at once."""
