"""The gallery: every scenario of one or more data sets on one page that needs nothing else."""

from trainwreck.evaluation.pages.gallery.build import write_gallery
from trainwreck.evaluation.pages.gallery.cards import write_cards

__all__ = ["write_cards", "write_gallery"]
