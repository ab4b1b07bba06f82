"""Built-in detectors, one a file. A module here is found by being here."""
