"""Look-alikes: healthy runs that resemble failures."""
