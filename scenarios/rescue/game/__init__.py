"""The rescue as a game in the browser: runs to save, with what each choice comes to trained in advance."""
