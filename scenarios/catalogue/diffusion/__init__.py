"""Failures of a model that removes noise: of the timesteps that it learns from, and of sampling."""
