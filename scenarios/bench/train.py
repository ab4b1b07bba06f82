"""Speed of training: against a plain loop on either device, telemetry on and off, two workers against one.

Everything that is compared runs in turn, round after round, in one process; a ratio is the median
over rounds of the ratio within a round, so that a machine whose speed drifts does not matter.
"""

from collections.abc import Callable, Sequence
from itertools import product
from time import perf_counter

import numpy as np
import torch
from joblib import Parallel, delayed

from trainwreck.evaluation.progress import Tick
from trainwreck.kernels.selection import IMPLS
from trainwreck.models.precision import Format
from trainwreck.scenarios.batches import training_block
from trainwreck.scenarios.bench.peak import peak, products_alone, step_operations, threads
from trainwreck.scenarios.bench.plain import PlainLoop
from trainwreck.scenarios.bench.readings import costs
from trainwreck.scenarios.bench.stopwatch import require_cuda
from trainwreck.scenarios.bench.table import Bars, Limit, Table, asked
from trainwreck.scenarios.job import Job
from trainwreck.scenarios.lane import Lane, Place
from trainwreck.scenarios.loop import LANE_ELEMENTS, fresh_state
from trainwreck.scenarios.process import prepare
from trainwreck.scenarios.settings import Setup, replaced
from trainwreck.scenarios.sizes import Size, healthy

AUTOCAST = "plain loop under bfloat16 autocast"
LOW = "bf16 products"
ROUNDS = 15
STEPS = 25  # of a run, a round
BUNDLE = 4  # runs stepped as one, where the telemetry is taken apart


def against_plain_loop(tick: Tick) -> Table:
    """Steps a second of a bundle with all telemetry against a plain single-run loop without any."""
    prepare()
    setup = healthy(Size.MICRO)
    runs = LANE_ELEMENTS["cpu"] // (setup.data.rows * setup.model.context * setup.model.width)
    tokens = training_block(setup, 0, range(STEPS)).inputs.reshape(-1)

    def plain(rotary: bool, autocast: bool = False) -> tuple[Callable[[], object], int]:
        loop = PlainLoop(setup.model, setup.data.rows, tokens, rotary, autocast=autocast)
        return lambda: loop.run(STEPS), 1

    subjects: dict[str, tuple[Callable[[], object], int]] = {
        "plain loop, the same model": plain(rotary=True),
        "plain loop, nanoGPT's own model": plain(rotary=False),
        f"bundle of {runs}, all telemetry": (_bundle(runs, record=True), runs),
        f"bundle of {runs}, all but validation": (_bundle(runs, record=True, validate=False), runs),
        f"bundle of {runs}, no telemetry": (_bundle(runs, record=False), runs),
        "single run, all telemetry": (_bundle(1, record=True), 1),
        f"{AUTOCAST}, the same model": plain(rotary=True, autocast=True),
        f"bundle of {runs}, all telemetry, {LOW}": (_bundle(runs, record=True, fmt=Format.BF16), runs),
    }
    rates: dict[str, float] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        best, alone = peak(1, dtype), products_alone(setup.model, setup.data.rows, runs, dtype)
        rates |= {f"the best product of large matrices, {name}": best, f"the products of a step, {name}": alone}
    seconds = _rounds(subjects, tick)
    names = list(subjects)
    rows = []
    for name in names:
        speed = STEPS / seconds[name]
        row = [name, float(np.median(speed))]
        row += [float(np.median(seconds[peer] / seconds[name])) for peer in names[:2]]
        spread = seconds[names[0]] / seconds[name]
        rows.append((*row, f"{np.quantile(spread, 0.25):.2f} to {np.quantile(spread, 0.75):.2f}"))
    return Table(
        name="bench/train",
        title="Training speed at size micro, one core",
        how=(
            f"{ROUNDS} rounds of {STEPS} steps of each, in turn, one thread, float32 where nothing else is said. Steps "
            "a second count the steps of every run of a bundle. All telemetry means every signal of the schema at "
            f"every step and validation every {setup.evaluation.every} steps. Token sampling is outside the timing on "
            "both sides; cutting, stacking and describing batches is inside. The peers have fused AdamW and clipping "
            "and log nothing. 'nanoGPT's own model' has learnt positions instead of rotary ones, so it does less work "
            f"a step. '{LOW}' is `precision.format=bf16`: the matrices of products in bfloat16, all else in float32; "
            "every ratio is to a float32 loop."
        ),
        command="trainwreck bench train --record",
        columns=(
            "what", "steps/s (median)", "x plain loop, same model", "x plain loop, nanoGPT's model",
            "quartiles of the first ratio",
        ),
        rows=tuple(rows),
        picture="train.png",
        bars=Bars("steps/s (median)", (*names[:2], f"{AUTOCAST}, the same model")),
        limit=_limit(setup, runs, rates, {name: float(np.median(STEPS / seconds[name])) for name in names}),
    )  # fmt: skip


def _limit(setup: Setup, runs: int, rates: dict[str, float], speeds: dict[str, float]) -> Limit:
    """rates: operations a second of the peak and of a step's products, in each format; speeds: steps a second."""
    operations = step_operations(setup.model, setup.data.rows)
    best, alone, low, low_alone = rates.values()
    plain, _, ours, *_, low_ours = speeds.values()
    # Seconds of a step that are products at the rate they have alone, and what is left.
    products = operations / alone
    rest = 1 / ours - products
    return Limit(
        text=(
            f"A step of a run has {operations / 1e9:.3f} billion operations in matrix products, forward and backward, "
            "attention's squares whole; nothing else is counted, validation neither. The first rows are what this "
            f"core does at best in either format, and what it does with the very matrices of a step of {runs} runs "
            f"and nothing else, measured in the same run: {alone / best:.0%} of the peak in float32, "
            f"{low_alone / low:.0%} in bfloat16. A step of the bundle takes {1e3 / ours:.1f} ms a run, "
            f"{1e3 * products:.1f} of them for products at that rate; the other {1e3 * rest:.1f} are all that is no "
            "product (softmax, norms, GELU, the loss, AdamW, validation and the telemetry), bound by memory and by "
            "the calls of PyTorch. "
            + asked("the plain loop", 1.3, ours / plain)
            + f" With {LOW} the same sum says at most {1 / (operations / low_alone + rest) / plain:.2f} x, if rounding "
            "to bfloat16 were for nothing. "
            + asked(f"the plain loop in float32, with {LOW}", 1.6, low_ours / plain)
            + f" Large products are {low / best:.1f} times as fast in bfloat16 as in float32 on this processor."
        ),
        columns=("what", "GFLOP/s in products", "of float32's peak", "steps/s"),
        rows=tuple(
            (name, rate / 1e9, rate / best, rate / operations)
            for name, rate in (rates | {name: operations * speed for name, speed in speeds.items()}).items()
        ),
    )


def on_cuda(tick: Tick) -> Table:
    """Run-steps a second of bundles on a CUDA device against the same plain loop there, and a bundle on one core."""
    require_cuda()
    return bundles_on("cuda", tick, IMPLS, (1, 16, 64, 256), torch.cuda.synchronize, (False, True))


def bundles_on(
    device: str,
    tick: Tick,
    impls: Sequence[str],
    sizes: Sequence[int],
    settle: Callable[[], object],
    graphs: Sequence[bool] = (False,),
) -> Table:
    """The measurement on a device. settle: waits until it has nothing left to do. graphs: without, with, or both."""
    prepare()
    setup = healthy(Size.MICRO)
    tokens = training_block(setup, 0, range(STEPS)).inputs.reshape(-1)
    plain = PlainLoop(setup.model, setup.data.rows, tokens, rotary=True, device=device)
    core = LANE_ELEMENTS["cpu"] // (setup.data.rows * setup.model.context * setup.model.width)
    peer = "plain loop on the GPU, one run"
    subjects: dict[str, tuple[Callable[[], object], int]] = {peer: (lambda: plain.run(STEPS), 1)}
    for impl in impls:
        for runs, captured in product(sizes, graphs):
            work = _bundle(runs, record=True, device=device, impl=impl, graphs=captured)
            subjects[_named(runs, impl, captured)] = (work, runs)
    subjects[f"bundle of {core} on one CPU core"] = (_bundle(core, record=True), core)
    seconds = _rounds(subjects, tick, settle)
    alone = _named(sizes[0], impls[-1], graphs[-1])
    rows = []
    for name, (_, runs) in subjects.items():
        ratio = seconds[peer] / seconds[name]
        spread = f"{np.quantile(ratio, 0.25):.2f} to {np.quantile(ratio, 0.75):.2f}"
        own = float(np.median(seconds[alone] / seconds[name]))
        rows.append((name, runs, float(np.median(STEPS / seconds[name])), float(np.median(ratio)), spread, own))
    return Table(
        name="bench/cuda",
        title="Training speed at size micro on a CUDA device, fp32",
        how=(
            f"{ROUNDS} rounds of {STEPS} steps of each, in turn, in one process, each waited for. Run-steps count the "
            "steps of every run of a bundle. The bundles have every signal of the schema at every step and validation "
            f"every {setup.evaluation.every} steps; the plain loop has fused AdamW and clipping and logs nothing. "
            "Captured: a step is one CUDA graph, statistics inside; all else, the plain loop too, is called "
            "operator by operator. Token sampling is outside the timing; cutting and moving batches is inside."
        ),
        command="trainwreck bench cuda --record",
        columns=("what", "runs", "run-steps/s (median)", "x plain loop on the GPU", "quartiles", f"x {alone}"),
        rows=tuple(rows),
    )


def telemetry_cost(tick: Tick) -> Table:
    """A step with all telemetry against the same step without, by bundle size."""
    prepare()
    widths = (1, 4, 8)
    setup = healthy(Size.MICRO)
    with threads(1):
        parts = costs(setup, BUNDLE)
    subjects: dict[str, tuple[Callable[[], object], int]] = {}
    for n in widths:
        subjects[f"{n}, off"] = (_bundle(n, record=False), n)
        subjects[f"{n}, signals"] = (_bundle(n, record=True, validate=False), n)
        subjects[f"{n}, all"] = (_bundle(n, record=True), n)
    seconds = _rounds(subjects, tick)
    rows = tuple(
        (
            n,
            float(np.median(seconds[f"{n}, off"])) / STEPS * 1e3,
            float(np.median(seconds[f"{n}, signals"] / seconds[f"{n}, off"])),
            float(np.median(seconds[f"{n}, all"] / seconds[f"{n}, off"])),
        )
        for n in widths
    )
    off = float(np.median(seconds[f"{BUNDLE}, off"])) / STEPS
    return Table(
        name="bench/telemetry",
        title="What telemetry costs at size micro, one core",
        how=(
            f"{ROUNDS} rounds of {STEPS} steps of each, in turn; a ratio is the median over rounds. Signals are all of "
            "the schema but the validation loss, at every step; validation is a pass over "
            f"{setup.evaluation.rows} held-out rows every {STEPS} steps, which other loops do too."
        ),
        command="trainwreck bench telemetry --record",
        columns=(
            "runs in the bundle",
            "ms a run-step without",
            "signals / without",
            "signals and validation / without",
        ),
        rows=rows,
        limit=_telemetry_limit(parts, off, float(np.median(seconds[f"{BUNDLE}, signals"] / seconds[f"{BUNDLE}, off"]))),
    )


def _telemetry_limit(parts: Sequence[tuple[str, float, float]], step: float, ratio: float) -> Limit:
    """parts: of `costs`. step: seconds without telemetry; ratio: with all signals to that."""
    rows = [(name, 1e3 * own, 1 + own / step, 1e3 * once, 1 + once / step) for name, own, once in parts]
    whole = [sum(column) for column in list(zip(*parts, strict=True))[1:]]
    together = ("together", 1e3 * whole[0], 1 + whole[0] / step, 1e3 * whole[1], 1 + whole[1] / step)
    return Limit(
        text=(
            f"What the groups of signals cost by themselves, on numbers in the shapes of a step of {BUNDLE} runs, "
            f"beside one sum over what they look at. So {together[4]:.3f} times the step without is the least for "
            "operators that read each of these numbers once. A signal needs several, most of them passes of their "
            "own; one program for all statistics of a tensor, as the Triton kernels are on a GPU, would be near it. "
            + asked("the step without telemetry", 1.03, ratio, least=False)
        ),
        columns=("signals", "ms a run-step", "step with / without", "one pass over what they read, ms", "so at least"),
        rows=(*rows, together),
    )


def two_workers(tick: Tick) -> Table:
    """Throughput of two worker processes against one."""
    ratios, alone = [], []
    with Parallel(n_jobs=2, backend="loky") as pool:
        pool(delayed(_timed_bundle)() for _ in range(2))  # start and warm both
        for done in range(ROUNDS):
            single = pool([delayed(_timed_bundle)()])[0]
            both = max(pool(delayed(_timed_bundle)() for _ in range(2)))
            ratios.append(2 * single / both)
            alone.append(single)
            tick(done + 1, ROUNDS, "round")
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return Table(
        name="bench/workers",
        title="Two worker processes against one, size micro, one thread each",
        how=(
            f"{ROUNDS} rounds; each trains one bundle of 4 runs for 4 x {STEPS} steps in one worker, then one in each "
            "of two at the same time. The ratio is throughput of two over throughput of one."
        ),
        command="trainwreck bench workers --record",
        columns=("seconds a bundle, alone", "throughput of two / one", "quartiles"),
        rows=((float(np.median(alone)), float(middle), f"{low:.2f} to {high:.2f}"),),
    )


def _named(runs: int, impl: str, captured: bool) -> str:
    return f"bundle of {runs}, {impl} kernels{', captured' if captured else ''}"


def _bundle(
    runs: int,
    *,
    record: bool,
    validate: bool = True,
    device: str = "cpu",
    impl: str | None = None,
    fmt: Format = Format.FP32,
    graphs: bool = False,
) -> Callable[[], object]:
    """A function that trains a bundle for STEPS steps, the last with validation; its batches are sampled here."""
    setup = replaced(healthy(Size.MICRO), evaluation__every=STEPS if validate else 10**6, precision__format=fmt)
    steps = range(1, STEPS + 1)
    jobs = [Job(f"run{i}", i, setup) for i in range(runs)]
    for job in jobs:
        training_block(setup, job.seed, steps)
    place = Place(torch.device(device), impl=impl, graphs=graphs)
    lane = Lane(jobs, [fresh_state(job) for job in jobs], 0, place)
    return lambda: lane.run(steps, record)


def _timed_bundle() -> float:
    prepare()
    work = _bundle(4, record=True)
    work()
    began = perf_counter()
    for _ in range(4):
        work()
    return perf_counter() - began


def _rounds(
    subjects: dict[str, tuple[Callable[[], object], int]], tick: Tick, settle: Callable[[], object] = lambda: None
) -> dict[str, np.ndarray]:
    """Seconds that each subject takes for STEPS steps of one run, by round (the first is not counted).

    settle: called before each reading of the clock, for a device that works on by itself.
    """
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for done in range(ROUNDS + 1):
        for name, (work, runs) in subjects.items():
            settle()
            began = perf_counter()
            work()
            settle()
            if done:
                seconds[name].append((perf_counter() - began) / runs)
        tick(done, ROUNDS, "round")
    return {name: np.array(values) for name, values in seconds.items()}
