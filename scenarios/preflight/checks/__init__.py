"""The checks before a run, one a file. Every module of this folder is found automatically."""
