"""What pages of several commands share: palette, theme switch and charts, as text to put into one file."""

from trainwreck.evaluation.pages.assets import asset, script

__all__ = ["asset", "script"]
