"""Where bundles are trained: worker processes of this machine, Ray actors, or tasks of a SLURM array."""

from trainwreck.scenarios.datasets.engines.choose import ENGINES, engine
from trainwreck.scenarios.datasets.engines.dispatch import Dispatch, Piece, in_workers
from trainwreck.scenarios.datasets.engines.engine import Engine, Settings
from trainwreck.scenarios.datasets.engines.local import Local
from trainwreck.scenarios.datasets.engines.ray import Ray
from trainwreck.scenarios.datasets.engines.slurm import Slurm

__all__ = ["ENGINES", "Dispatch", "Engine", "Local", "Piece", "Ray", "Settings", "Slurm", "engine", "in_workers"]
