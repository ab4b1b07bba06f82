"""One folder a family, one file a scenario; `registry` finds them."""
