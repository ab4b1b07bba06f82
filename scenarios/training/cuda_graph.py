"""A bundle's training step as one CUDA graph: its kernels are launched at once, step after step, on that step's inputs.

A graph runs the same kernels on the same addresses again. So the inputs of each step are copied to where the
captured step reads them, and what a step replaces is copied back to where the next one looks for it. What is
drawn on the host by the number of the step, dropout, noise and tokens, is no part of a graph.
"""

import dataclasses
import gc
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from trainwreck.models.config import Recompute
from trainwreck.scenarios.config.objectives import ObjectiveKind
from trainwreck.scenarios.training.bundle import Bundle
from trainwreck.scenarios.training.inputs import Inputs
from trainwreck.scenarios.training.step import train_step

WARM_UP = 3  # steps before the capture, real ones: libraries start up, kernels are compiled
INPUTS = ("inputs", "targets", "weights", "documents", "ages", "lr")

Work = Callable[[], object]


class Graph(Protocol):
    """What work is captured by."""

    def warm_up(self, work: Work) -> None:
        """Do the work where it will be captured."""
        ...

    def capture(self, work: Work) -> None:
        """Note what the work would do; none of it happens."""
        ...

    def replay(self) -> None:
        """Do what was noted."""
        ...


class CudaGraph:
    """Work of the current CUDA device, captured on a stream of its own."""

    def __init__(self) -> None:
        self.graph, self.stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def warm_up(self, work: Work) -> None:
        """See `Graph.warm_up`. Autograd remembers the stream that it ran on."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work()
        torch.cuda.current_stream().wait_stream(self.stream)

    def capture(self, work: Work) -> None:
        """See `Graph.capture`. Other threads may allocate meanwhile; they are at the next block's inputs."""
        collects = gc.isenabled()
        gc.disable()  # an earlier graph that is collected meanwhile is freed, and CUDA ends the capture
        try:
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                work()
        finally:
            if collects:
                gc.enable()

    def replay(self) -> None:
        """See `Graph.replay`."""
        self.graph.replay()


def capturable(bundle: Bundle) -> bool:
    """Whether every number of a bundle's step comes from the device."""
    drawn = bundle.program.dropout or bundle.program.scheduled_sampling or bundle.tables.noise_N is not None
    # The store and the noise of frames are the host's.
    drawn = drawn or bundle.program.objective in (ObjectiveKind.RETRIEVAL, ObjectiveKind.TRANSCRIPTION)
    drawn = drawn or bundle.program.rewarded > 0
    return not drawn and bundle.group is None and bundle.setup.model.recompute is Recompute.NONE


class CapturedStep:
    """Steps a bundle as `train_step` does, to the same bits: at first by it, then by replays of one such step.

    make: of the graph, a CUDA graph where None. ValueError for a bundle whose step is not `capturable`.
    """

    def __init__(self, bundle: Bundle, make: Callable[[], Graph] | None = None) -> None:
        if not capturable(bundle):
            raise ValueError(
                "graphs: dropout, noise, own tokens, rewards, retrieval, frames, recomputation and several ranks are "
                "not allowed; allowed: none of them"
            )
        self.bundle, self.graph, self.warm = bundle, (make or CudaGraph)(), 0
        self.inputs: Inputs | None = None
        self.row: Tensor | None = None

    def __call__(self, block: Inputs, index: int, step: int) -> None:
        """One step, the one at `index` of the block."""
        if self.warm < WARM_UP:
            self.warm += 1
            self.graph.warm_up(lambda: train_step(self.bundle, block, index, step))
            return
        if self.inputs is None:
            self._capture(block, step)
        assert self.inputs is not None
        for name in INPUTS:
            getattr(self.inputs, name)[0].copy_(getattr(block, name)[index])
        self.graph.replay()
        if self.row is not None and self.bundle.recorder is not None:
            self.bundle.recorder.buffer[index].copy_(self.row[0])

    def _capture(self, block: Inputs, step: int) -> None:
        first = {name: getattr(block, name)[:1].clone() for name in INPUTS}
        self.inputs = inputs = dataclasses.replace(block, **first)
        if self.bundle.recorder is not None:
            self.row = torch.empty_like(self.bundle.recorder.buffer[:1])
        self.graph.capture(lambda: self._step(inputs, step))

    def _step(self, inputs: Inputs, step: int) -> None:
        """A step that leaves every number where it found the one before."""
        bundle, recorder = self.bundle, self.bundle.recorder
        before = [(holder, name, getattr(holder, name)) for holder, name in replaced_by_a_step(bundle)]
        buffer = None if recorder is None else recorder.buffer
        if recorder is not None and self.row is not None:
            recorder.buffer = self.row
        try:
            train_step(bundle, inputs, 0, step)
        finally:
            if recorder is not None and buffer is not None:
                recorder.buffer = buffer
        for holder, name, held in before:
            if getattr(holder, name) is not held:
                held.copy_(getattr(holder, name))
                setattr(holder, name, held)


def replaced_by_a_step(bundle: Bundle) -> list[tuple[Any, str]]:
    """Where a step may put another tensor in place of one: object and attribute. All else it writes in place."""
    holders: list[tuple[Any, tuple[str, ...]]] = [
        (bundle.moments, ("count", "first", "second")),
        (bundle.scaler, ("scale", "good_steps")),
        (bundle, () if bundle.carried is None else ("carried",)),
    ]
    return [(holder, name) for holder, names in holders for name in names]
