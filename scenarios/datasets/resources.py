"""Time and memory that a bundle takes, and how many of its runs may be held side by side.

Seconds are of one core of the machine that they were measured on; of use are ratios only: the costliest bundle goes
first, and what is left of a plan is weighed by it. The cut of a plan into bundles names the files of a data set, so it
must not depend on the machine. What memory decides is how many runs of a bundle are trained side by side; the rest of
it waits its turn, and no number of any run depends on it.
"""

from collections.abc import Sequence

from trainwreck.evaluation.errors import InputError
from trainwreck.models.parameters import layout
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.datasets.engines.limits import SHARE, available
from trainwreck.scenarios.spec.run_spec import RunSpec
from trainwreck.scenarios.training.backend import CPU, Backend
from trainwreck.scenarios.training.bundle import BLOCK, bundle_width
from trainwreck.scenarios.training.telemetry import widths

MIB = 2**20
FACTOR = 1.5  # an estimate is within this of the measured peak; tests/scenarios/datasets/test_resources.py measures it

# Measured on Linux with PyTorch for the CPU.
PROCESS = 315 * MIB  # a worker with everything imported
SOURCES = 60 * MIB  # libraries that load with the first batch, the language's tables, batches kept for the next run
KEPT = 6  # float32 copies of its parameters that a run in a bundle has: weights, moments, states handed over
STEPPED = 6  # further ones while it is stepped: gradients, update, what statistics need
PER_WIDTH, PER_SCORE, PER_LOGIT = 30, 2, 6  # floats a token, layer and unit of width; a score; a logit
FED = 10  # 8-byte numbers for each token of a block of steps
STATE = 4  # of a state that is held: weights, two moments, and gaps between what is allocated

# Fitted by least squares of relative errors (none negative) to the processor time of the 383 bundles of the proofs,
# the sample and the demo that run on one rank.
PER_STEP_AND_LAYER = 4.5e-3  # of runs stepped as one: what PyTorch does however small the tensors are
PER_WIDTH_SQUARED = 1.2e-9  # a token and layer: matrix products
PER_TOKEN = 9.3e-6
OF_RANKS = 2.8  # times as much with several, which wait for each other: 12 runs of 1,650 steps on 4 ranks, two cores
PROCESSES = 5.0  # seconds until the ranks of a group have started, each


def core_seconds(setups: Sequence[Setup]) -> float:
    """For runs of one shape trained as one bundle on a CPU, in a worker that is there already."""
    setup = setups[0]
    model, rows, ranks = setup.model, setup.data.rows, setup.distributed.ranks
    tokens = rows * model.context
    side = bundle_width(rows, model)
    bundles = -(-len(setups) // side)
    a_step = bundles * ranks * PER_STEP_AND_LAYER * model.layers
    a_step += len(setups) * tokens * (PER_WIDTH_SQUARED * model.layers * model.width**2 + PER_TOKEN)
    return setup.steps * a_step if ranks == 1 else setup.steps * a_step * OF_RANKS + PROCESSES * ranks


def needed(setups: Sequence[Setup], width: int, backend: Backend = CPU, states: int = 0) -> int:
    """Bytes that a worker takes at most for a bundle of runs of one shape, `width` of them side by side.

    states: of earlier steps that are held of each of these. An estimate, within `FACTOR` of what is measured. On a GPU
    it is the device's memory, without the process's own.
    """
    setup = setups[0]
    model, rows, ranks = setup.model, setup.data.rows, setup.distributed.ranks
    width = min(width, len(setups))
    side = min(width, bundle_width(rows, model, backend.device, backend.impl))
    tokens, parameters = rows * model.context, layout(model).size
    activations = model.layers * (PER_WIDTH * model.width + PER_SCORE * model.heads * model.context)
    activations += PER_LOGIT * model.vocab_size
    training = width * (KEPT * 4 * parameters + FED * 8 * tokens * min(BLOCK, setup.steps))
    training += width * states * STATE * 4 * parameters
    training += side * 4 * (STEPPED * parameters + tokens * activations)
    # Twice: the blocks as they came, and joined.
    telemetry = 2 * 4 * sum(widths(model).values()) * sum(setup.steps for setup in setups)
    if backend.device != "cpu":
        return training
    return ranks * (PROCESS + SOURCES + training) + (PROCESS if ranks > 1 else 0) + telemetry


def check_memory(specs: Sequence[RunSpec], backend: Backend = CPU) -> None:
    """InputError with the estimate where runs that are trained side by side take more than this machine's share."""
    total = available(backend.device)
    if total is None:
        return
    took = sum(needed([spec.setup], 1, backend) for spec in specs)
    if took > SHARE * total:
        raise InputError(
            f"memory: about {took / 2**30:,.1f} GiB for the {len(specs)} runs of {specs[0].scenario} with these "
            f"settings; allowed: {SHARE * total / 2**30:.1f}, {SHARE:.0%} of what there is"
        )


def width_within(specs: Sequence[RunSpec], share: int | None, backend: Backend = CPU, states: int = 0) -> int:
    """How many runs of a bundle may be trained side by side in `share` bytes; all where there is no limit.

    states: as in `needed`. InputError where not even one fits.
    """
    setups = [spec.setup for spec in specs]
    width = len(setups)
    if share is None:
        return width
    while width > 1 and needed(setups, width, backend, states) > share:
        width //= 2
    least = needed(setups, 1, backend, states)
    if least > share:
        raise InputError(
            f"memory: {share / 2**30:.2f} GiB a worker is not allowed for a run of {specs[0].scenario} at size "
            f"{specs[0].size.value}, which takes about {least / 2**30:.2f}; allowed: more memory, or fewer workers"
        )
    return width
