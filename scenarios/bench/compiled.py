"""What `torch.compile` would save on one core, what it costs first, and whether numbers stay what they are."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.cross_entropy import cross_entropy
from trainwreck.models import gpt
from trainwreck.models.loss import weighted_mean
from trainwreck.scenarios.bench.peak import threads
from trainwreck.scenarios.bench.table import Limit, Table
from trainwreck.scenarios.bench.turns import part, processor_seconds, quartiles
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.bundle import Lane
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import fresh_state, lane_width

ROUNDS = 15
STEPS = 10  # a round
SIZES = (Size.MICRO, Size.DEEP)


@dataclass(frozen=True)
class Pass:
    """Forward, loss and backward of some runs on their first batch, as the training loop has them without telemetry.

    batch: inputs, documents, targets and weights. loss: called with the leaves by name and the batch, [N].
    """

    leaves: dict[str, Tensor]
    batch: tuple[Tensor, ...]
    loss: Callable[..., Tensor]

    def once(self) -> tuple[Tensor, ...]:
        """The gradients, each [N, *shape]."""
        value = self.loss(self.leaves, *self.batch)
        return torch.autograd.grad(value, list(self.leaves.values()), grad_outputs=torch.ones_like(value))

    def several(self) -> None:
        """What a round is."""
        for _ in range(STEPS):
            self.once()


def against_eager(tick: Tick) -> Table:
    """The measurement, in processor time; InputError without a C++ compiler, which it needs."""
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        raise InputError(
            "compile: no C++ compiler on the PATH, which torch.compile needs; allowed: one of g++, clang++"
        )
    prepare()
    torch._dynamo.reset()  # past eight shapes of one function it stops
    rows, alone, pays = [], [], []
    with threads(1):
        for done, size in enumerate(SIZES):
            setup = healthy(size)
            runs = lane_width(setup.data.rows, setup.model)
            eager, compiled = _pass(setup, runs), _pass(setup, runs, compile=True)
            single = _pass(setup, 1, compile=True)
            eager.once()  # imports what is imported at first use, which the compiler can't follow
            with torch.compiler.config.patch(force_disable_caches=True):  # type: ignore[attr-defined]
                single.once()  # of its own shape, so that it costs the other nothing
                began = perf_counter()
                found = compiled.once()
                first = perf_counter() - began
            alone.append(all(torch.equal(a[:1], b) for a, b in zip(found, single.once(), strict=True)))
            again = all(torch.equal(a, b) for a, b in zip(found, compiled.once(), strict=True))
            taken = processor_seconds(
                {"eager": eager.several, "compiled": compiled.several}, ROUNDS, part(tick, done, len(SIZES))
            )
            ms = {name: float(np.median(seconds)) / STEPS / runs * 1e3 for name, seconds in taken.items()}
            saved = ms["eager"] - ms["compiled"]
            pays.append((size.value, f"{first / saved * 1e3:,.0f}" if saved > 0 else "never"))
            ratio = taken["eager"] / taken["compiled"]
            apart = max(_apart(a, b) for a, b in zip(found, eager.once(), strict=True))
            row = (size.value, runs, ms["eager"], ms["compiled"], float(np.median(ratio)), quartiles(ratio, 2))
            rows.append((*row, round(first, 1), f"{apart:.0e}", _word(again), _word(alone[-1])))
    return Table(
        name="bench/compile",
        title="What torch.compile saves on one core",
        how=(
            f"Forward, loss and backward of a bundle without telemetry, {ROUNDS} rounds of {STEPS} steps of each, in "
            "turn, processor time, one thread, float32. The first call is clock time, with every cache of the compiler "
            "off. The difference is the largest between the gradients of the two ways, of the largest gradient of its "
            "tensor. The same again: two calls give the same bits. The same alone: the first run's gradients have the "
            "same bits where the bundle is that run alone, as the rule of this project asks."
        ),
        command="trainwreck bench compile --record",
        columns=(
            "size", "runs", "eager, ms a run-step", "compiled", "x eager", "quartiles", "first call, s",
            "difference", "the same again", "the same alone",
        ),
        rows=tuple(rows),
        limit=Limit(
            heading="When it pays",
            text=(
                "So many run-steps of one program at one bundle width save what compiling it takes. A plan "
                "has many programs, since a fault that changes shapes, masks or formats is another one, and the last "
                "bundle of each has another width. "
                + (
                    "Training does not use it, since a run's numbers would depend on the bundle that it is in."
                    if not all(alone)
                    else "Training does not use it: the bits of a data set would depend on the machine's C++ compiler."
                )
            ),
            columns=("size", "run-steps until it pays"),
            rows=tuple(pays),
        ),
    )  # fmt: skip


def _pass(setup: Setup, runs: int, *, compile: bool = False) -> Pass:
    jobs = [Job(f"run{i}", i, setup) for i in range(runs)]
    lane = Lane(jobs, [fresh_state(job) for job in jobs], 0)

    def loss(params: dict[str, Tensor], inputs: Tensor, documents: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        logits = gpt.forward(gpt.Model(params, setup.model, lane.tables, impl="reference"), inputs, documents)
        return weighted_mean(cross_entropy(logits, targets, impl="reference").nll_NM, weights)

    fed = lane.feed(range(1))
    batch = fed.inputs[0], fed.documents[0], fed.targets[0], fed.weights[0]
    return Pass(lane.leaves, batch, torch.compile(loss, dynamic=False, fullgraph=True) if compile else loss)


def _apart(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


def _word(true: bool) -> str:
    return "yes" if true else "no"
