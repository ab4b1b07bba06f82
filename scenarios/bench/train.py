"""Speed of training: a bundle, with telemetry and without, against a plain loop on one core.

Everything that is compared runs in turn, round after round, in one process; a ratio is the median
over rounds of the ratio within a round, so that a machine whose speed drifts does not matter.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count, islice, zip_longest
from time import perf_counter
from typing import Any

import numpy as np
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick
from trainwreck.models.config import Format
from trainwreck.scenarios.bench.peak import peak, products_alone, step_operations
from trainwreck.scenarios.bench.peers.loops import PlainLoop
from trainwreck.scenarios.bench.peers.mapped import MappedLoop
from trainwreck.scenarios.bench.table import Bars, Goal, Limit, Table
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.block import start_block
from trainwreck.scenarios.training.bundle import Bundle, Place, bundle_width
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import fresh_state

ROUNDS = 15
STEPS = 25  # of a run, a round
AUTOCAST = "plain loop under bfloat16 autocast"
LOW = "bf16 products"
CPP = "C++ kernels"
JAX = "JAX, vmap over runs"
COMPILED = "plain loop, torch.compile"
PEERS = ("plain loop", JAX)  # how their names begin

Work = Callable[[], object]
Subjects = Mapping[str, tuple[Work, int]]  # what a round does by name, and of how many runs


def against_plain_loop(tick: Tick) -> Table:
    """Steps a second of a bundle with all telemetry against a plain single-run loop without any."""
    prepare()
    setup = healthy(Size.MICRO)
    runs = bundle_width(setup.data.rows, setup.model)
    tokens = training_block(setup, 0, range(STEPS)).inputs.reshape(-1)

    def plain(rotary: bool, autocast: bool = False, compiled: bool = False) -> tuple[Work, int]:
        loop = PlainLoop(setup.model, setup.data.rows, tokens, rotary, autocast=autocast, compiled=compiled)
        return partial(loop.run, STEPS), 1

    def mapped() -> tuple[Work, int]:
        return partial(MappedLoop(setup.model, setup.data.rows, tokens, runs).run, STEPS), runs

    kinds: dict[str, dict[str, Any]] = {
        "all telemetry": {"record": True},
        "all but validation": {"record": True, "validate": False},
        "no telemetry": {"record": False},
        f"all telemetry, {LOW}": {"record": True, "fmt": Format.BF16},
    }
    in_reference = _bundles(runs, kinds)
    subjects: dict[str, tuple[Work, int]] = {
        "plain loop, the same model": plain(rotary=True),
        "plain loop, nanoGPT's own model": plain(rotary=False),
        **in_reference,
        "single run, all telemetry": (bundle(1, record=True), 1),
        f"{AUTOCAST}, the same model": plain(rotary=True, autocast=True),
    }
    missing = ""
    try:
        in_cpp = _bundles(bundle_width(setup.data.rows, setup.model, impl="cpp"), kinds, "cpp")
    except ValueError as error:
        in_cpp, missing = {}, f" '{CPP}' are left out: {error}."
    subjects |= in_cpp
    for name, made in ((COMPILED, partial(plain, rotary=True, compiled=True)), (f"{JAX}, {runs} runs", mapped)):
        try:
            subjects[name] = made()
        except InputError as error:
            missing += f" '{name}' is left out: {error}."
    best, seen, bare, best_low = in_cpp or in_reference  # what goals are asked of
    rates: dict[str, float] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        large, alone = peak(1, dtype), products_alone(setup.model, setup.data.rows, runs, dtype)
        rates |= {f"the best product of large matrices, {name}": large, f"the products of a step, {name}": alone}
    asked_of = [(best, 1.3)]
    single, _, low, _ = rates.values()
    if low > single:  # a processor without products in bfloat16 is not asked to gain by them
        asked_of.append((best_low, 2.0))
    seconds = seconds_in_turn(subjects, tick)
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
            f"{ROUNDS} rounds of {STEPS} steps of each, in turn, one thread, float32 where nothing "
            "else is said. Steps a second count the steps of every run of a bundle. All telemetry means every signal "
            f"of the schema at every step and validation every {setup.evaluation.every} steps. Batches are "
            "inside the timing: a bundle draws every run's tokens from their language, stacks and describes them; the "
            "peers cut rows at random places out of one array of tokens, as nanoGPT does. They have fused AdamW and "
            "clipping and log nothing. 'nanoGPT's own model' has learnt positions instead of rotary ones, so "
            f"it does less work a step. '{LOW}' is `precision.format=bf16`: the matrices of products in "
            f"bfloat16, all else in float32; every ratio is to a float32 loop. '{CPP}' is `--impl cpp`, else they are "
            f"the reference's. '{COMPILED}' has forward and "
            f"backward in C++ for this shape; '{JAX}' is the plain loop's model, clipping and AdamW, mapped over "
            f"runs and compiled to one call a step. Compiling is outside the timing.{missing}"
        ),
        command="trainwreck bench train --record",
        columns=(
            "what", "steps/s (median)", "x plain loop, same model", "x plain loop, nanoGPT's model",
            "quartiles of the first ratio",
        ),
        rows=tuple(rows),
        picture="train.png",
        bars=Bars("steps/s (median)", tuple(name for name in names if name.startswith(PEERS))),
        limit=_limit(setup, runs, rates, {name: float(np.median(STEPS / seconds[name])) for name in names}, best),
        goals=(
            *(
                Goal(name, names[0], asked, float(np.median(seconds[names[0]] / seconds[name])))
                for name, asked in asked_of
            ),
            Goal(f"a step of {seen}", "the step without telemetry", 1.04,
                 float(np.median(seconds[seen] / seconds[bare])), least=False),
        ),
    )  # fmt: skip


def _bundles(runs: int, kinds: Mapping[str, dict[str, Any]], impl: str | None = None) -> dict[str, tuple[Work, int]]:
    """Of so many runs, a bundle of each kind, by name."""
    end = f", {CPP}" if impl else ""
    return {f"bundle of {runs}, {name}{end}": (bundle(runs, **how, impl=impl), runs) for name, how in kinds.items()}


def _limit(setup: Setup, runs: int, rates: dict[str, float], speeds: dict[str, float], subject: str) -> Limit:
    """rates: operations a second of the peak and of a step's products, in each format; speeds: steps a second.

    subject: what is held against them.
    """
    operations = step_operations(setup.model, setup.data.rows)
    best, alone, low, low_alone = rates.values()
    plain, ours = next(iter(speeds.values())), speeds[subject]
    # Seconds of a step that are products at the rate they have alone, and what is left.
    products = operations / alone
    rest = 1 / ours - products
    return Limit(
        text=(
            f"A step of a run has {operations / 1e9:.3f} billion operations in matrix products, forward and backward, "
            "attention's squares whole; nothing else is counted, validation neither. The first rows are what this "
            f"core does at best in either format, and what it does with the very matrices of a step of {runs} runs "
            f"and nothing else, measured in the same run: {alone / best:.0%} of the peak in float32, "
            f"{low_alone / low:.0%} in bfloat16. A step of '{subject}' takes {1e3 / ours:.1f} ms a run, "
            f"{1e3 * products:.1f} of them for products at that rate; the other {1e3 * rest:.1f} are all that is no "
            "product (softmax, norms, GELU, the loss, AdamW, validation and the telemetry), bound by memory and by "
            "the calls of PyTorch. "
            f"With {LOW} the same sum says at most {1 / (operations / low_alone + rest) / plain:.2f} x, if rounding "
            "to bfloat16 were for nothing. "
            f"Large products are {low / best:.2g} times as fast in bfloat16 as in float32 on this processor."
        ),
        columns=("what", "GFLOP/s in products", "of float32's peak", "steps/s"),
        rows=tuple(
            (name, rate / 1e9, rate / best, rate / operations)
            for name, rate in (rates | {name: operations * speed for name, speed in speeds.items()}).items()
        ),
    )


def bundle(
    runs: int,
    *,
    record: bool,
    validate: bool = True,
    device: str = "cpu",
    impl: str | None = None,
    fmt: Format = Format.FP32,
    graphs: bool = False,
    ahead: bool = False,
    blocks: int = 1,
) -> Work:
    """A function that goes on with a bundle for some blocks of STEPS steps, batches sampled, the last with validation.

    ahead: as `Place` has it. Each block but the last is read when the next one was asked for.
    """
    setup = replaced(healthy(Size.MICRO), evaluation__every=STEPS if validate else 10**6, precision__format=fmt)
    jobs = [Job(f"run{i}", i, setup) for i in range(runs)]
    place = Place(torch.device(device), impl=impl, graphs=graphs, ahead=ahead)
    bundled = Bundle(jobs, [fresh_state(job) for job in jobs], 0, place)
    bundled.inputs(range(1))  # the language's tables are made once
    following = (range(first, first + STEPS) for first in count(1, STEPS))

    def work() -> None:
        steps = list(islice(following, blocks))
        reads: list[Callable[[], object]] = []
        for now, then in zip_longest(steps, steps[1:]):
            reads.append(start_block(bundled, now, record, then))
            if len(reads) > 1:
                reads.pop(0)()
        reads.pop()()

    return work


def seconds_in_turn(
    subjects: Subjects, tick: Tick, settle: Callable[[], object] = lambda: None, rounds: int | None = None
) -> dict[str, np.ndarray]:
    """Seconds that each subject takes for its work, by run and by round (ROUNDS of them, the first not counted).

    settle: called before each reading of the clock, for a device that works on by itself.
    """
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    rounds = rounds or ROUNDS
    for done in range(rounds + 1):
        for name, (work, runs) in subjects.items():
            settle()
            began = perf_counter()
            work()
            settle()
            if done:
                seconds[name].append((perf_counter() - began) / runs)
        tick(done, rounds, "round")
    return {name: np.array(values) for name, values in seconds.items()}
