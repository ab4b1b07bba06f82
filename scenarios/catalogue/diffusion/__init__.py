"""Failures of a model that removes noise: of the timesteps and the schedule that it learns from, and of sampling."""
