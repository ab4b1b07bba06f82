"""Branches without their norm; its gain and shift still act."""

import torch
from torch import Tensor

from trainwreck.models.hooks import Edit, NormEdit, by_site


def missing_norm(bare_NL2: Tensor) -> NormEdit:
    """Norms that leave their input as it is in the bare runs. bare_NL2: bool."""
    bare = by_site(bare_NL2, "_norm")

    def edit(norm: Edit) -> Edit:
        def missing(x_NMD: Tensor, site: str) -> Tensor:
            y = norm(x_NMD, site)
            return torch.where(bare[site], x_NMD, y) if site in bare else y

        return missing

    return edit
