"""Speed of training on a CUDA device: bundles against a plain loop there, captured or not, float32 and TF32 apart."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np
import torch

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.selection import ON_CUDA
from trainwreck.scenarios.bench import train
from trainwreck.scenarios.bench.peers.loops import PlainLoop
from trainwreck.scenarios.bench.table import Goal, Table
from trainwreck.scenarios.bench.timing import require_cuda
from trainwreck.scenarios.bench.train import Subjects, Work, bundle, seconds_in_turn
from trainwreck.scenarios.config.settings import essence, fingerprint
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.spec.registry import scenarios
from trainwreck.scenarios.spec.run_spec import Role, family_of
from trainwreck.scenarios.training import loop
from trainwreck.scenarios.training.bundle import bundle_width
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.inputs.ahead import MANY
from trainwreck.scenarios.training.inputs.processes import workers

SIZES = (1, 16, 64, 256)  # runs of a bundle
PEER = "plain loop, one run"
MIXED = 64  # runs of different scenarios
ROUNDS, BLOCKS = 3, 4  # blocks of `train.STEPS` steps a round; of what is timed on a CPU core one
LOW = ", tf32"
SIGNALS, NOTHING = ", no validation", ", no telemetry"  # the largest bundle with less
# As many times as fast as the peer, as this project's own single run, and as one CPU core; what telemetry may cost.
GOALS = (50.0, 10.0, 500.0, 1.05)


def against_plain_loop(tick: Tick) -> Table:
    """Run-steps a second of bundles on a CUDA device against a plain loop there, and a bundle on one core."""
    require_cuda()
    return bundles_on("cuda", tick, ON_CUDA, SIZES, torch.cuda.synchronize, (False, True), mixed_runs(MIXED))


def bundles_on(
    device: str,
    tick: Tick,
    impls: Sequence[str],
    sizes: Sequence[int],
    settle: Callable[[], object],
    graphs: Sequence[bool] = (False,),
    mixed: Sequence[Job] = (),
) -> Table:
    """The measurement on a device. settle: waits until it has nothing left to do. graphs: without, with, or both.

    mixed: runs of which only the bundles that are built for them are counted.

    Every size with the last of `impls` and `graphs`; the largest with all of them, in TF32, and with less telemetry.
    """
    prepare()
    setup = healthy(Size.MICRO)
    tokens = training_block(setup, 0, range(train.STEPS)).inputs.reshape(-1)
    plain, plain_low = (PlainLoop(setup.model, setup.data.rows, tokens, rotary=True, device=device) for _ in range(2))
    core, most, steps = bundle_width(setup.data.rows, setup.model), sizes[-1], BLOCKS * train.STEPS
    low, on_core = PEER + LOW, f"bundle of {core} on one CPU core"
    made = partial(bundle, device=device, ahead=True, blocks=BLOCKS)
    chosen = partial(made, impl=impls[-1], graphs=graphs[-1])
    best = partial(chosen, most)
    alone, largest = (named(runs, impls[-1], graphs[-1]) for runs in (sizes[0], most))
    subjects: dict[str, tuple[Work, int]] = {
        PEER: (lambda: plain.run(steps), 1),
        low: (in_tf32(lambda: plain_low.run(steps)), 1),
    }
    for runs in sizes[:-1]:
        subjects[named(runs, impls[-1], graphs[-1])] = (chosen(runs, record=True), runs)
    for impl, captured in product(impls, graphs):
        subjects[named(most, impl, captured)] = (made(most, record=True, impl=impl, graphs=captured), most)
    subjects[largest + LOW] = (in_tf32(best(record=True)), most)
    subjects[largest + SIGNALS] = (best(record=True, validate=False), most)
    subjects[largest + NOTHING] = (best(record=False), most)
    subjects[on_core] = (bundle(core, record=True), core)
    seconds = seconds_in_turn(subjects, tick, settle, ROUNDS)
    seconds[on_core] = BLOCKS * seconds[on_core]

    def times(name: str, peer: str) -> float:
        return float(np.median(seconds[peer] / seconds[name]))

    return Table(
        name="bench/cuda",
        title="Training speed at size micro on a CUDA device",
        how=(
            f"{ROUNDS} rounds of {steps} steps of each ({train.STEPS} on the CPU), in turn, each waited for; "
            "float32 where TF32 is not said. Run-steps count the steps of every run of a bundle. The bundles have "
            f"every signal of the schema at every step and validation every {setup.evaluation.every} steps where "
            "nothing else is said; the plain loop has fused AdamW and clipping and logs nothing. TF32: PyTorch's "
            "matrix products, and those of the Triton kernels, may round their factors to 10 bits of mantissa. "
            "Captured: a step is one CUDA graph, statistics inside; all else, the plain loop too, is called operator "
            "by operator. Batches are inside the timing: every run of a bundle has a seed of its own, and its tokens "
            f"are drawn, described, stacked and moved in blocks of {train.STEPS} steps, while the block before trains "
            f"(by {workers()} processes where there are {MANY} seeds or more); the first block of a round is "
            "waited for. The plain loop cuts rows out of one array of tokens."
        ),
        command="trainwreck bench cuda --record",
        columns=(
            "what", "runs", "run-steps/s (median)", f"x {PEER}", "quartiles", f"x {low}", f"x {alone}",
        ),
        rows=tuple(_row(name, subjects, seconds, (PEER, low, alone)) for name in subjects),
        goals=(
            Goal(largest, PEER, GOALS[0], times(largest, PEER)),
            Goal(largest, alone, GOALS[1], times(largest, alone)),
            Goal(largest, on_core, GOALS[2], times(largest, on_core)),
            Goal(f"a step of {largest + SIGNALS}", "the same, no telemetry", GOALS[3],
                 times(largest + NOTHING, largest + SIGNALS), least=False),
            *(
                Goal(f"bundles built for {len(runs)} runs of different scenarios", "their programs", 1,
                     bundles_built(runs, device), least=False)
                for runs in (mixed,) if runs
            ),
        ),
    )  # fmt: skip


def mixed_runs(count: int) -> list[Job]:
    """The faulty runs of so many scenarios of the catalogue whose models and batches have one shape."""
    jobs: dict[str, list[Job]] = {}
    for name in scenarios():
        job = next(spec for spec in family_of(name, range(1)) if spec.role is Role.FAULTY).job()
        if job.setup.distributed.ranks == 1:
            shape = fingerprint((essence(job.setup.model), job.setup.data.rows, job.setup.steps))
            jobs.setdefault(shape, []).append(job)
    return max(jobs.values(), key=len)[:count]


def bundles_built(jobs: Sequence[Job], device: str) -> float:
    """Bundles that training some runs builds, for each program that they have from first to last."""
    counts: list[int] = []
    loop.train(list(jobs), device=device, record=False, reserve=True, built=counts.append)
    return counts[0] / len({segment.program for job in jobs for segment in job.segments})


def named(runs: int, impl: str, captured: bool) -> str:
    """A bundle in words."""
    return f"bundle of {runs}, {impl} kernels{', captured' if captured else ''}"


def in_tf32(work: Work) -> Work:
    """The work while float32 products may be TF32; the setting is as before after it."""

    def low() -> object:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return work()
        finally:
            torch.set_float32_matmul_precision(before)

    return low


def _row(name: str, subjects: Subjects, seconds: dict[str, np.ndarray], peers: Sequence[str]) -> tuple[object, ...]:
    ratios = [seconds[peer] / seconds[name] for peer in peers]
    low, high = np.quantile(ratios[0], (0.25, 0.75))
    first, *others = (float(np.median(ratio)) for ratio in ratios)
    speed = float(np.median(BLOCKS * train.STEPS / seconds[name]))
    return (name, subjects[name][1], speed, first, f"{low:.2f} to {high:.2f}", *others)
