"""The checks before a run, one a file. A module here is found by being here."""
