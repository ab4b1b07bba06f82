"""The commands, one module a group; the command line imports a module when one of its commands runs."""
