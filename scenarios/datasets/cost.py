"""What a bundle costs: seconds on one core of the machine that it was measured on.

Of use are ratios only: the costliest bundle goes first, and what is left of a plan is weighed by it.
`trainwreck bench footprint` holds it against what bundles take.
"""

from collections.abc import Sequence

from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.training.loop import lane_width

# Fitted by least squares of relative errors (none negative) to the processor time of the 383 bundles of the proofs,
# the sample and the demo that run on one rank.
PER_STEP_AND_LAYER = 4.5e-3  # of a lane: what PyTorch does however small the tensors are
PER_WIDTH_SQUARED = 1.2e-9  # a token and layer: matrix products
PER_TOKEN = 9.3e-6
PROCESSES = 5.0  # seconds until the ranks of a group have started, each


def core_seconds(setups: Sequence[Setup], device: str = "cpu") -> float:
    """For runs of one shape trained as one bundle, in a worker that is there already."""
    setup = setups[0]
    model, rows, ranks = setup.model, setup.data.rows, setup.distributed.ranks
    tokens = rows * model.context
    lane = lane_width(rows, model, device)
    lanes = -(-len(setups) // lane)
    a_step = lanes * ranks * PER_STEP_AND_LAYER * model.layers
    a_step += len(setups) * tokens * (PER_WIDTH_SQUARED * model.layers * model.width**2 + PER_TOKEN)
    return setup.steps * a_step + (PROCESSES * ranks if ranks > 1 else 0.0)
