"""A block of steps of a bundle: trained, evaluated where it is due, and its signals read from the device at once."""

from functools import partial

import numpy as np
from torch import Tensor

from trainwreck.evaluation.dataset.schema import BY_NAME, Axis
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.cuda_graph import CapturedStep, capturable
from trainwreck.scenarios.training.distributed.record import combined
from trainwreck.scenarios.training.evaluation import evaluate
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.step import train_step
from trainwreck.scenarios.training.telemetry import Recorder


def run_block(bundle: Bundle, steps: range, record: bool) -> tuple[list[dict[str, np.ndarray]], dict[int, np.ndarray]]:
    """Train a block of steps.

    Returns each run's signals [S] or [S, K], and losses on the held-out sets [N, 1 or 2] by step.
    """
    block, runs = bundle.inputs(steps), len(bundle.jobs)
    if record and bundle.recorder is None:
        bundle.recorder = Recorder(bundle.setup.model, bundle.plan, runs, len(steps), bundle.device, bundle.impl)
    if bundle.graphs and bundle.captured is None and capturable(bundle):
        bundle.captured = CapturedStep(bundle)
    advance = bundle.captured or partial(train_step, bundle)
    losses: list[tuple[int, Tensor]] = []
    every, last = bundle.setup.evaluation.every, bundle.setup.steps - 1
    for index, step in enumerate(steps):
        if record and (step % every == 0 or step == last):
            losses.append((step, evaluate(bundle, step)))
        advance(block, index, step)
    evaluated = {step: _of_first_rank(bundle, value).cpu().numpy() for step, value in losses}
    if bundle.recorder is None:
        return [], evaluated
    recorded = _recorded(bundle, bundle.recorder, block, len(steps))
    signals = [
        {k: v[:, i, 0] if BY_NAME[k].axis is Axis.SCALAR else v[:, i] for k, v in recorded.items()} | block.host[i]
        for i in range(runs)
    ]
    return signals, evaluated


def _of_first_rank(bundle: Bundle, value: Tensor) -> Tensor:
    return value if bundle.group is None else bundle.group.gather(value)[0]


def _recorded(bundle: Bundle, recorder: Recorder, block: Inputs, steps: int) -> dict[str, np.ndarray]:
    """Signals of a block, [S, N, K], of all ranks as one; what the host knows of each goes into `block`."""
    if bundle.group is None:
        return recorder.read(steps)
    own = np.stack([h["rank_batch_hash"][:, 0] for h in block.host], 1)
    for i, hashes in enumerate(np.moveaxis(bundle.group.gather_array(own, bundle.device), 1, 0)):
        block.host[i]["rank_batch_hash"] = hashes
    parts = bundle.group.gather(recorder.buffer[:steps])
    return combined([recorder.split(part) for part in parts], block.tokens)
