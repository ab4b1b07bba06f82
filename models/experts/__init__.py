"""A router and experts in the place of an MLP."""
