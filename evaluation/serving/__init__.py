"""A page on this machine's own address that shows runs while they are trained."""

from trainwreck.evaluation.serving.live_page import LivePage, serve
from trainwreck.evaluation.serving.page import Mark, Show

__all__ = ["LivePage", "Mark", "Show", "serve"]
