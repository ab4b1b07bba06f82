"""Checks of a data set: whether anything gives the labels away, and which causes can be confused."""
