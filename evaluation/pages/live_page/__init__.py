"""A page on this machine's own address that shows runs while they are trained."""

from trainwreck.evaluation.pages.live_page.page import Mark, Show
from trainwreck.evaluation.pages.live_page.recorded import LivePage, serve

__all__ = ["LivePage", "Mark", "Show", "serve"]
