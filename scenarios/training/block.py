"""A block of steps of a bundle: trained, evaluated where it is due, and its signals read from the device at once."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.dataset.schema import BY_NAME, EVALUATIONS, Axis
from trainwreck.scenarios.training.bundle import BLOCK, Bundle
from trainwreck.scenarios.training.cuda_graph import CapturedStep, capturable
from trainwreck.scenarios.training.distributed.record import combined
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.matrices import spectral_entropy
from trainwreck.scenarios.training.objectives.choose import objective
from trainwreck.scenarios.training.step import train_step
from trainwreck.scenarios.training.telemetry import Recorder

Recorded = tuple[list[dict[str, np.ndarray]], dict[int, np.ndarray]]


def run_block(bundle: Bundle, steps: range, record: bool) -> Recorded:
    """Train a block of steps.

    Returns each run's signals [S] or [S, K], and by step the `EVALUATIONS`, [N, E], NaN for those that it has not.
    """
    return start_block(bundle, steps, record)()


def start_block(bundle: Bundle, steps: range, record: bool, following: range | None = None) -> Callable[[], Recorded]:
    """Ask the device for a block of steps; returns what waits for it and gives what `run_block` does.

    Until then nothing waits, so that the host is at the next block while a device is at work on this one. following:
    the block that is likely to be next.
    """
    block, runs = bundle.inputs(steps, following), len(bundle.jobs)
    if record and bundle.recorder is None:
        longest = max(BLOCK, len(steps))
        bundle.recorder = Recorder(bundle.setup.model, bundle.plan, runs, longest, bundle.device, bundle.impl)
    if bundle.graphs and bundle.captured is None and capturable(bundle):
        bundle.captured = CapturedStep(bundle)
    advance = bundle.captured or partial(train_step, bundle)
    losses: list[tuple[int, Tensor]] = []
    query_keys: list[tuple[int, Callable[[], np.ndarray]]] = []
    every, last = bundle.setup.evaluation.every, bundle.setup.steps - 1
    for index, step in enumerate(steps):
        evaluated, recorder = record and (step % every == 0 or step == last), bundle.recorder
        spectral = None
        if evaluated:
            losses.append((step, _evaluate(bundle, step)))
            if recorder is not None:
                weights = bundle.computing()
                spectral = recorder.matrices.spectral_norm(weights)
                compared = recorder.matrices.query_key(weights)
                query_keys.append((index, _to_host(_of_first_rank(bundle, compared))))
        advance(block, index, step)
        if recorder is not None and spectral is not None:
            recorder.write_spectral(index, spectral)
    known = [(step, _to_host(_of_first_rank(bundle, value))) for step, value in losses]
    buffer = None if bundle.recorder is None else _recorded(bundle, bundle.recorder, block, len(steps))

    def read() -> Recorded:
        losses = {step: values() for step, values in known}
        if buffer is None:
            return [], losses
        recorded = buffer()
        heads = bundle.setup.model.heads
        entropy = np.full((len(steps), runs, bundle.setup.model.layers * heads), np.nan, np.float32)
        for index, weight in query_keys:
            entropy[index] = spectral_entropy(weight(), heads)
        recorded["qk_spectral_entropy"] = entropy
        signals = [
            {k: v[:, i, 0] if BY_NAME[k].axis is Axis.SCALAR else v[:, i] for k, v in recorded.items()} | block.host[i]
            for i in range(runs)
        ]
        return signals, losses

    return read


def _evaluate(bundle: Bundle, step: int) -> Tensor:
    """What is known at evaluated steps alone, [N, E]."""
    found = objective(bundle.program.objective).evaluate(bundle, step)
    none = torch.full_like(found["validation_loss"], torch.nan)
    return torch.stack([found.get(name, none) for name in EVALUATIONS], 1)


def _to_host(values: Tensor) -> Callable[[], np.ndarray]:
    """Copy numbers to the host when the device has come to here; returns what waits for them."""
    if values.device.type != "cuda":
        copied = values.clone().numpy()
        return lambda: copied
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    done = torch.cuda.Event()
    done.record()

    def wait() -> np.ndarray:
        done.synchronize()
        return host.numpy()

    return wait


def _of_first_rank(bundle: Bundle, value: Tensor) -> Tensor:
    return value if bundle.group is None else bundle.group.gather(value)[0]


def _recorded(bundle: Bundle, recorder: Recorder, block: Inputs, steps: int) -> Callable[[], dict[str, np.ndarray]]:
    """Signals of a block, [S, N, K], of all ranks as one; what the host knows of each goes into `block`."""
    if bundle.group is None:
        buffer = _to_host(recorder.buffer[:steps])
        return lambda: recorder.split(buffer())
    own = np.stack([h["rank_batch_hash"][:, 0] for h in block.host], 1)
    for i, hashes in enumerate(np.moveaxis(bundle.group.gather_array(own, bundle.device), 1, 0)):
        block.host[i]["rank_batch_hash"] = hashes
    parts = bundle.group.gather(recorder.buffer[:steps])
    signals = combined([recorder.split(part.cpu().numpy()) for part in parts], block.tokens)
    return lambda: signals
