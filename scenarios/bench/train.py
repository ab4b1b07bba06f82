"""Speed of training: against a plain loop on either device, telemetry on and off, two workers against one.

Everything that is compared runs in turn, round after round, in one process; a ratio is the median
over rounds of the ratio within a round, so that a machine whose speed drifts does not matter.
"""

from collections.abc import Sequence
from time import perf_counter

import numpy as np
import torch
from joblib import Parallel, delayed

from trainwreck.evaluation.progress import Tick
from trainwreck.models.precision import Format
from trainwreck.scenarios.bench import bundles
from trainwreck.scenarios.bench.bundles import Work, bundle, seconds_in_turn
from trainwreck.scenarios.bench.peak import peak, products_alone, step_operations, threads
from trainwreck.scenarios.bench.plain import PlainLoop
from trainwreck.scenarios.bench.readings import costs
from trainwreck.scenarios.bench.table import Bars, Goal, Limit, Table
from trainwreck.scenarios.config.settings import Setup
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import lane_width

AUTOCAST = "plain loop under bfloat16 autocast"
LOW = "bf16 products"
BUNDLE = 4  # runs stepped as one, where the telemetry is taken apart


def against_plain_loop(tick: Tick) -> Table:
    """Steps a second of a bundle with all telemetry against a plain single-run loop without any."""
    prepare()
    setup = healthy(Size.MICRO)
    runs = lane_width(setup.data.rows, setup.model)
    tokens = training_block(setup, 0, range(bundles.STEPS)).inputs.reshape(-1)

    def plain(rotary: bool, autocast: bool = False) -> tuple[Work, int]:
        loop = PlainLoop(setup.model, setup.data.rows, tokens, rotary, autocast=autocast)
        return lambda: loop.run(bundles.STEPS), 1

    subjects: dict[str, tuple[Work, int]] = {
        "plain loop, the same model": plain(rotary=True),
        "plain loop, nanoGPT's own model": plain(rotary=False),
        f"bundle of {runs}, all telemetry": (bundle(runs, record=True), runs),
        f"bundle of {runs}, all but validation": (bundle(runs, record=True, validate=False), runs),
        f"bundle of {runs}, no telemetry": (bundle(runs, record=False), runs),
        "single run, all telemetry": (bundle(1, record=True), 1),
        f"{AUTOCAST}, the same model": plain(rotary=True, autocast=True),
        f"bundle of {runs}, all telemetry, {LOW}": (bundle(runs, record=True, fmt=Format.BF16), runs),
    }
    rates: dict[str, float] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        best, alone = peak(1, dtype), products_alone(setup.model, setup.data.rows, runs, dtype)
        rates |= {f"the best product of large matrices, {name}": best, f"the products of a step, {name}": alone}
    seconds = seconds_in_turn(subjects, tick)
    names = list(subjects)
    rows = []
    for name in names:
        speed = bundles.STEPS / seconds[name]
        row = [name, float(np.median(speed))]
        row += [float(np.median(seconds[peer] / seconds[name])) for peer in names[:2]]
        spread = seconds[names[0]] / seconds[name]
        rows.append((*row, f"{np.quantile(spread, 0.25):.2f} to {np.quantile(spread, 0.75):.2f}"))
    return Table(
        name="bench/train",
        title="Training speed at size micro, one core",
        how=(
            f"{bundles.ROUNDS} rounds of {bundles.STEPS} steps of each, in turn, one thread, float32 where nothing "
            "else is said. Steps a second count the steps of every run of a bundle. All telemetry means every signal "
            f"of the schema at every step and validation every {setup.evaluation.every} steps. Token sampling is "
            "outside the timing on both sides; cutting, stacking and describing batches is inside. The peers have "
            "fused AdamW and clipping and log nothing. 'nanoGPT's own model' has learnt positions instead of rotary "
            f"ones, so it does less work a step. '{LOW}' is `precision.format=bf16`: the matrices of products in "
            "bfloat16, all else in float32; every ratio is to a float32 loop."
        ),
        command="trainwreck bench train --record",
        columns=(
            "what", "steps/s (median)", "x plain loop, same model", "x plain loop, nanoGPT's model",
            "quartiles of the first ratio",
        ),
        rows=tuple(rows),
        picture="train.png",
        bars=Bars("steps/s (median)", (*names[:2], f"{AUTOCAST}, the same model")),
        limit=_limit(setup, runs, rates, {name: float(np.median(bundles.STEPS / seconds[name])) for name in names}),
        goals=tuple(
            Goal(name, names[0], asked, float(np.median(seconds[names[0]] / seconds[name])))
            for name, asked in ((names[2], 1.3), (names[-1], 1.6))
        ),
    )  # fmt: skip


def _limit(setup: Setup, runs: int, rates: dict[str, float], speeds: dict[str, float]) -> Limit:
    """rates: operations a second of the peak and of a step's products, in each format; speeds: steps a second."""
    operations = step_operations(setup.model, setup.data.rows)
    best, alone, low, low_alone = rates.values()
    plain, _, ours, *_ = speeds.values()
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
            f"With {LOW} the same sum says at most {1 / (operations / low_alone + rest) / plain:.2f} x, if rounding "
            "to bfloat16 were for nothing. "
            f"Large products are {low / best:.1f} times as fast in bfloat16 as in float32 on this processor."
        ),
        columns=("what", "GFLOP/s in products", "of float32's peak", "steps/s"),
        rows=tuple(
            (name, rate / 1e9, rate / best, rate / operations)
            for name, rate in (rates | {name: operations * speed for name, speed in speeds.items()}).items()
        ),
    )


def telemetry_cost(tick: Tick) -> Table:
    """A step with all telemetry against the same step without, by bundle size."""
    prepare()
    widths = (1, 4, 8)
    setup = healthy(Size.MICRO)
    with threads(1):
        parts = costs(setup, BUNDLE)
    subjects: dict[str, tuple[Work, int]] = {}
    for n in widths:
        subjects[f"{n}, off"] = (bundle(n, record=False), n)
        subjects[f"{n}, signals"] = (bundle(n, record=True, validate=False), n)
        subjects[f"{n}, all"] = (bundle(n, record=True), n)
    seconds = seconds_in_turn(subjects, tick)
    rows = tuple(
        (
            n,
            float(np.median(seconds[f"{n}, off"])) / bundles.STEPS * 1e3,
            float(np.median(seconds[f"{n}, signals"] / seconds[f"{n}, off"])),
            float(np.median(seconds[f"{n}, all"] / seconds[f"{n}, off"])),
        )
        for n in widths
    )
    off = float(np.median(seconds[f"{BUNDLE}, off"])) / bundles.STEPS
    return Table(
        name="bench/telemetry",
        title="What telemetry costs at size micro, one core",
        how=(
            f"{bundles.ROUNDS} rounds of {bundles.STEPS} steps of each, in turn; a ratio is the median over rounds. "
            "Signals are all of the schema but the validation loss, at every step; validation is a pass over "
            f"{setup.evaluation.rows} held-out rows every {bundles.STEPS} steps, which other loops do too."
        ),
        command="trainwreck bench telemetry --record",
        columns=(
            "runs in the bundle",
            "ms a run-step without",
            "signals / without",
            "signals and validation / without",
        ),
        rows=rows,
        limit=_telemetry_limit(parts, off),
        goals=(
            Goal(
                f"a step of {BUNDLE} runs with all signals",
                "the step without",
                1.03,
                rows[widths.index(BUNDLE)][2],
                least=False,
            ),
        ),
    )


def _telemetry_limit(parts: Sequence[tuple[str, float, float]], step: float) -> Limit:
    """parts: of `costs`. step: seconds without telemetry."""
    rows = [(name, 1e3 * own, 1 + own / step, 1e3 * once, 1 + once / step) for name, own, once in parts]
    whole = [sum(column) for column in list(zip(*parts, strict=True))[1:]]
    together = ("together", 1e3 * whole[0], 1 + whole[0] / step, 1e3 * whole[1], 1 + whole[1] / step)
    return Limit(
        text=(
            f"What the groups of signals cost by themselves, on numbers in the shapes of a step of {BUNDLE} runs, "
            f"beside one sum over what they look at. So {together[4]:.3f} times the step without is the least for "
            "operators that read each of these numbers once. A signal needs several, most of them passes of their "
            "own; one program for all statistics of a tensor, as the Triton kernels are on a GPU, would be near it."
        ),
        columns=("signals", "ms a run-step", "step with / without", "one pass over what they read, ms", "so at least"),
        rows=(*rows, together),
    )


def two_workers(tick: Tick) -> Table:
    """Throughput of two worker processes against one."""
    ratios, alone = [], []
    with Parallel(n_jobs=2, backend="loky") as pool:
        pool(delayed(_timed_bundle)() for _ in range(2))  # start and warm both
        for done in range(bundles.ROUNDS):
            single = pool([delayed(_timed_bundle)()])[0]
            both = max(pool(delayed(_timed_bundle)() for _ in range(2)))
            ratios.append(2 * single / both)
            alone.append(single)
            tick(done + 1, bundles.ROUNDS, "round")
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return Table(
        name="bench/workers",
        title="Two worker processes against one, size micro, one thread each",
        how=(
            f"{bundles.ROUNDS} rounds; each trains one bundle of 4 runs for 4 x {bundles.STEPS} steps in one worker, "
            "then one in each of two at the same time. The ratio is throughput of two over throughput of one."
        ),
        command="trainwreck bench workers --record",
        columns=("seconds a bundle, alone", "throughput of two / one", "quartiles"),
        rows=((float(np.median(alone)), float(middle), f"{low:.2f} to {high:.2f}"),),
    )


def _timed_bundle() -> float:
    prepare()
    work = bundle(4, record=True)
    work()
    began = perf_counter()
    for _ in range(4):
        work()
    return perf_counter() - began
