"""The gallery: every scenario of one or more data sets on one page that needs nothing else."""

from trainwreck.evaluation.pages.gallery.build import write_gallery

__all__ = ["write_gallery"]
