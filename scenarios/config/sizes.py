"""The named model sizes and the healthy setup of each."""

from enum import Enum

from trainwreck.models.config import Init
from trainwreck.scenarios.config.settings import Setup, replaced


class Size(Enum):
    """How large a run is."""

    MICRO = "micro"  # 2 layers, width 64, context 64: seconds a run on one core
    DEEP = "deep"  # 12 narrow layers, context 32: for faults of depth
    SMALL = "small"  # 6 layers, width 256, context 256


def healthy(size: Size) -> Setup:
    """A setup that trains well at this size, on the full language.

    Deep models start as Xavier would have them, with unit embeddings and no shrinking of residual
    branches: the initialisation under which depth is a problem.
    """
    setup = Setup()
    if size is Size.DEEP:
        setup = replaced(
            setup,
            model__layers=12,
            model__width=32,
            model__heads=2,
            model__context=32,
            model__init=Init(embedding_std=1.0, matrix_std=0.16, head_std=0.1, scale_residual=False),
            data__rows=8,
            optimizer__lr=6e-3,
            schedule__warmup_steps=60,
            evaluation__rows=96,
        )
    elif size is Size.SMALL:
        setup = replaced(
            setup,
            model__layers=6,
            model__width=256,
            model__heads=8,
            model__context=256,
            model__init=Init(embedding_std=0.05, matrix_std=0.05),
            optimizer__lr=2e-3,
            steps=600,
        )
    return setup
