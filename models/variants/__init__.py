"""Parts of the model that are wrong on purpose, a file each; `select` puts those that are asked for on the hooks."""
