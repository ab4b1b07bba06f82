"""Parts of the model that stop doing their work."""
