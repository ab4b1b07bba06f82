"""One folder a family, one file a scenario; `registry` finds them."""

from trainwreck.scenarios.config import bases

__all__ = ["bases"]  # for files of scenarios that import it from here, as they had to
