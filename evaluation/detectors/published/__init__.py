"""Rules that papers and tools publish, with their defaults."""
