"""A lane's training step as one CUDA graph: its kernels are launched at once, step after step, on that step's inputs.

A graph runs the same kernels on the same addresses again. So the inputs of each step are copied to where the
captured step reads them, and what a step replaces is copied back to where the next one looks for it. What is
drawn on the host by the number of the step, dropout and noise, is no part of a graph.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from trainwreck.scenarios.training.inputs import Feed

if TYPE_CHECKING:
    from trainwreck.scenarios.training.bundle import Lane

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
        """See `Graph.capture`."""
        with torch.cuda.graph(self.graph, stream=self.stream):
            work()

    def replay(self) -> None:
        """See `Graph.replay`."""
        self.graph.replay()


def capturable(lane: "Lane") -> bool:
    """Whether every number of a lane's step comes from the device."""
    return not lane.program.dropout and lane.tables.noise_N is None and lane.group is None


class CapturedStep:
    """Steps a lane as `Lane.step` does, to the same bits: at first by it, then by replays of one such step.

    make: of the graph, a CUDA graph where None. ValueError for a lane whose step is not `capturable`.
    """

    def __init__(self, lane: "Lane", make: Callable[[], Graph] | None = None) -> None:
        if not capturable(lane):
            raise ValueError("graphs: dropout, noise and several ranks are not allowed; allowed: none of them")
        self.lane, self.graph, self.warm = lane, (make or CudaGraph)(), 0
        self.inputs: Feed | None = None
        self.row: Tensor | None = None

    def __call__(self, feed: Feed, index: int, step: int) -> None:
        """One step, the one at `index` of the feed."""
        if self.warm < WARM_UP:
            self.warm += 1
            self.graph.warm_up(lambda: self.lane.step(feed, index, step))
            return
        if self.inputs is None:
            self._capture(feed, step)
        assert self.inputs is not None
        for name in INPUTS:
            getattr(self.inputs, name)[0].copy_(getattr(feed, name)[index])
        self.graph.replay()
        if self.row is not None and self.lane.recorder is not None:
            self.lane.recorder.buffer[index].copy_(self.row[0])

    def _capture(self, feed: Feed, step: int) -> None:
        first = {name: getattr(feed, name)[:1].clone() for name in INPUTS}
        self.inputs = inputs = dataclasses.replace(feed, **first)
        if self.lane.recorder is not None:
            self.row = torch.empty_like(self.lane.recorder.buffer[:1])
        self.graph.capture(lambda: self._step(inputs, step))

    def _step(self, inputs: Feed, step: int) -> None:
        """A step that leaves every number where it found the one before."""
        lane, recorder = self.lane, self.lane.recorder
        before = [(holder, name, getattr(holder, name)) for holder, name in replaced_by_a_step(lane)]
        buffer = None if recorder is None else recorder.buffer
        if recorder is not None and self.row is not None:
            recorder.buffer = self.row
        try:
            lane.step(inputs, 0, step)
        finally:
            if recorder is not None and buffer is not None:
                recorder.buffer = buffer
        for holder, name, held in before:
            if getattr(holder, name) is not held:
                held.copy_(getattr(holder, name))
                setattr(holder, name, held)


def replaced_by_a_step(lane: "Lane") -> list[tuple[Any, str]]:
    """Where a step may put another tensor in place of one: object and attribute. All else it writes in place."""
    holders: list[tuple[Any, tuple[str, ...]]] = [
        (lane.moments, ("count", "first", "second")),
        (lane.scaler, ("scale", "good_steps")),
        (lane, () if lane.carried is None else ("carried",)),
    ]
    return [(holder, name) for holder, names in holders for name in names]
