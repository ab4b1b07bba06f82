"""Architecture and initialisation."""
