"""A sweep by `generate`, from the plan to labels on disk, against trainers that do one run after another."""

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.peak import peak, products_alone, step_operations, threads
from trainwreck.scenarios.bench.peers.loops import Train, lightning_trainer, plain, transformers_trainer
from trainwreck.scenarios.bench.table import Bars, Goal, Limit, Table
from trainwreck.scenarios.config.settings import Setup, replaced
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.data.batches import training_block
from trainwreck.scenarios.datasets.generate import bundles, generate
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, calibration, family_of
from trainwreck.scenarios.training.backend import CPU, Backend, backend
from trainwreck.scenarios.training.environment import cores, prepare

RUNS, ROUNDS, WORKERS, THREADS = 64, 3, 2, 2
RATES = (0.003, 0.006, 0.01, 0.02)
SCENARIO = "mask_missing"  # on the size's own healthy model; its runs go on to the last step
SETTINGS: tuple[str, ...] = ()  # besides those of the size
WARM = 3  # steps of a run that is not counted
HOUR = 3600

PLAIN, ONE_THREAD = f"plain loop, {THREADS} threads", "plain loop, 1 thread"
TRANSFORMERS, LIGHTNING = "Transformers Trainer", "Lightning Trainer"
MAKERS: dict[str, Callable[[], Train]] = {TRANSFORMERS: transformers_trainer, LIGHTNING: lightning_trainer}
SWEPT, INJECTED = "generate, healthy runs", "generate, faulty, twin, cured and calibration runs"
SWEPT_IN_CPP = f"{SWEPT}, C++ kernels"
GOALS = {PLAIN: 2.5, TRANSFORMERS: 3.0, LIGHTNING: 3.0}


@dataclass(frozen=True)
class Spent:
    """Seconds of a sweep: until the first bundle was handed out, until the last was back, until it was all on disk.

    busy: processor time of the workers in training, all of them together.
    """

    planning: float
    training: float
    finishing: float
    busy: float

    @property
    def total(self) -> float:
        return self.planning + self.training + self.finishing


def healthy_sweep() -> list[RunSpec]:
    """The healthy run of the size on many seeds at several learning rates."""
    rates = [tuple(sorted((*SETTINGS, f"optimizer.lr={rate:g}"))) for rate in RATES]
    seeds = range(RUNS // len(RATES))
    return [RunSpec(SCENARIO, Role.TWIN, seed, Size.MICRO, None, rate) for rate in rates for seed in seeds]


def injected_sweep() -> list[RunSpec]:
    """A scenario's three runs on many seeds, and as many healthy ones again for thresholds."""
    quarter = RUNS // 4
    more = calibration(SCENARIO, range(1000, 1000 + quarter), overrides=SETTINGS)
    return [*family_of(SCENARIO, range(quarter), overrides=SETTINGS), *more]


def against_trainers(tick: Tick) -> Table:
    """Runs an hour of `generate` on two workers, and of peers that use two threads."""
    load = os.getloadavg()[0]
    prepare()
    peers, missing = found_peers()
    sweeps: dict[str, tuple[Callable[[], list[RunSpec]], Backend]] = {SWEPT: (healthy_sweep, CPU)}
    try:
        sweeps[SWEPT_IN_CPP] = healthy_sweep, backend(impl="cpp")
    except InputError as error:
        missing.append(f"{SWEPT_IN_CPP} is left out: {error}.")
    sweeps[INJECTED] = injected_sweep, CPU
    runs = healthy_sweep()
    setup, side = runs[0].setup, min(len(one.specs) for one in bundles(runs))
    peaks = {count: peak(count) for count in (1, THREADS)}
    alone = products_alone(setup.model, setup.data.rows, side)
    for count, train in peers.values():
        _seconds(train, replaced(setup, steps=WARM), 0, count)
    hourly: dict[str, list[float]] = {name: [] for name in (*peers, *sweeps)}
    spent: dict[str, list[Spent]] = {name: [] for name in sweeps}
    begun, sampled = [], []
    for done in range(ROUNDS):
        run = runs[done * RUNS // ROUNDS]  # another one each round
        for name, (count, train) in peers.items():
            tick(sum(map(len, hourly.values())), ROUNDS * len(hourly), name)
            hourly[name].append(HOUR / _seconds(train, run.setup, run.seed, count))
        sampled.append(_sampling(setup, RUNS + done))
        begun.append(generated(lambda: _first_steps(healthy_sweep())).total)
        for name, (specs, kernels) in sweeps.items():
            tick(sum(map(len, hourly.values())), ROUNDS * len(hourly), name)
            spent[name].append(generated(specs, kernels))
            hourly[name].append(HOUR * RUNS / spent[name][-1].total)
    tick(ROUNDS * len(hourly), ROUNDS * len(hourly), "")
    speeds = {name: np.array(values) for name, values in hourly.items()}
    middle = _medians(spent[_best(speeds)])
    return Table(
        name="bench/generate",
        title=f"A sweep of {RUNS} runs of size micro, {WORKERS} workers, against trainers that do one run at a time",
        how=how(setup, load, missing),
        command="trainwreck bench generate --record",
        columns=("what", "runs/hour (median)", "least to most", *(f"x {name}" for name in peers)),
        rows=tuple(_row(name, speeds, tuple(peers)) for name in speeds),
        picture="generate.png",
        bars=Bars("runs/hour (median)", tuple(peers)),
        limit=limit(setup, speeds, peaks, alone, side, middle, float(np.median(begun)), float(np.median(sampled))),
        goals=goals(speeds),
    )


def found_peers() -> tuple[dict[str, tuple[int, Train]], list[str]]:
    """Peers by name with their threads, those that are installed; and what is said of the others."""
    peers: dict[str, tuple[int, Train]] = {PLAIN: (THREADS, plain), ONE_THREAD: (1, plain)}
    missing = []
    for name, make in MAKERS.items():
        try:
            peers[name] = THREADS, make()
        except InputError as error:
            missing.append(f"{name} is left out: {error}.")
    return peers, missing


def _seconds(train: Train, setup: Setup, seed: int, count: int) -> float:
    """Of one run on so many threads; its tokens are there before."""
    batches = training_block(setup, seed, range(setup.steps))
    with threads(count):
        began = perf_counter()
        train(setup, batches)
        return perf_counter() - began


def _sampling(setup: Setup, seed: int) -> float:
    """Seconds of drawing a run's tokens, for a seed that has not been asked for before."""
    began = perf_counter()
    training_block(setup, seed, range(setup.steps))
    return perf_counter() - began


def _best(speeds: dict[str, np.ndarray]) -> str:
    """The healthy sweep that goals are asked of: that of the C++ kernels where there is a compiler."""
    return SWEPT_IN_CPP if SWEPT_IN_CPP in speeds else SWEPT


def generated(specs: Callable[[], list[RunSpec]], kernels: Backend = CPU) -> Spent:
    """A sweep into a folder that is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        out, told = Path(folder) / "sweep", []
        began = perf_counter()
        generate(
            specs(), out, workers=WORKERS, name="bench", backend=kernels,
            progress=lambda *_: told.append(perf_counter()),
        )  # fmt: skip
        ended = perf_counter()
        parts = [read_json(file) for file in (out / "bundles").glob("[!.]*.json")]
    busy = sum(part["seconds_per_run"] * len(part["rows"]) for part in parts)
    return Spent(told[0] - began, told[-1] - told[0], ended - told[-1], busy)


def _first_steps(specs: Sequence[RunSpec]) -> list[RunSpec]:
    """A run for each worker, of one step: what a sweep takes besides its runs."""
    bases = {spec.base: spec for spec in specs}  # of which no two are one bundle
    return [
        replace(one, overrides=tuple(sorted({*(o for o in one.overrides if not o.startswith("steps=")), "steps=1"})))
        for one in list(bases.values())[:WORKERS]
    ]


def _medians(spent: Iterable[Spent]) -> Spent:
    several = list(spent)
    return Spent(*(float(np.median([getattr(one, field.name) for one in several])) for field in fields(Spent)))


def _row(name: str, speeds: dict[str, np.ndarray], peers: Sequence[str]) -> tuple[Any, ...]:
    own = speeds[name]
    ratios = (float(np.median(own / speeds[peer])) for peer in peers)
    return (name, round(float(np.median(own))), f"{own.min():.0f} to {own.max():.0f}", *ratios)


def how(setup: Setup, load: float, missing: Sequence[str]) -> str:
    """How it was taken."""
    left_out = "".join(f" {reason}" for reason in missing)
    return (
        f"{ROUNDS} rounds of each, in turn; a ratio is the median over rounds of the ratio within a round. A run has "
        f"{setup.steps} steps of {setup.data.rows} x {setup.model.context} tokens. `generate` is timed whole, into an "
        f"empty folder: plan, start of {WORKERS} workers of one thread each, sampling of tokens, training with every "
        f"signal at every step and validation every {setup.evaluation.every} steps, Parquet, labels, checksums. The "
        f"healthy sweep is {RUNS // len(RATES)} seeds at learning rates {', '.join(f'{r:g}' for r in RATES)}, the "
        f"very runs that the peers make; the other is {RUNS // 4} seeds of `{SCENARIO}`, and trains what a faulty run "
        "and its cured one share once. 'C++ kernels' is `--impl cpp`, else they are the reference's. A peer makes one "
        "run of the healthy sweep a round, another in each, from the making of the model to the last step, in a "
        f"process that has made some steps before; an hour is {HOUR} s over what that takes. It has the same model, "
        "batch size, fused AdamW, clipping and learning rates, gets its "
        "tokens ready, and neither validates nor saves. The plain loop logs nothing. The Trainers log at every step: "
        "Transformers loss, gradient norm and learning rate in memory, Lightning the loss to a CSV file. "
        f"Processes that wanted to run at the beginning (load average): {load:.1f} on {cores()} cores.{left_out}"
    )


def limit(
    setup: Setup,
    speeds: dict[str, np.ndarray],
    peaks: dict[int, float],
    alone: float,
    side: int,
    spent: Spent,
    begun: float,
    sampled: float,
) -> Limit:
    """peaks: operations a second by threads. alone: of the products of a step of `side` runs, one thread.

    spent: of the healthy sweep that goals are asked of; begun: seconds of a sweep of one step; sampled: of drawing a
    run's tokens.
    """
    operations, best = setup.steps * step_operations(setup.model, setup.data.rows), _best(speeds)
    middle = {name: float(np.median(own)) for name, own in speeds.items()}
    rates = {
        "the best product of large matrices, 1 thread": peaks[1],
        f"the best product of large matrices, {THREADS} threads": peaks[THREADS],
        f"the products of a step of {side} runs alone, {WORKERS} x 1 thread": WORKERS * alone,
    }
    rates |= {name: operations * speed / HOUR for name, speed in middle.items() if name != INJECTED}
    ceiling = HOUR * WORKERS * alone / operations  # runs an hour
    second = float(np.median(speeds[PLAIN] / speeds[ONE_THREAD]))
    each = float(np.median(speeds[best] / speeds[ONE_THREAD])) / WORKERS
    text = (
        f"A run has {operations / 1e9:.0f} billion operations in matrix products, forward and backward, attention's "
        "squares whole; validation and all that is no product are not counted. The first two rows are what these "
        "cores do at best, measured in the same run. The third multiplies the very matrices of a step and does "
        f"nothing else, as if {WORKERS} cores did {WORKERS} times what one does: a sweep of these products and nothing "
        f"more would be {ceiling / middle[PLAIN]:.1f} times the plain loop on {THREADS} threads, and '{best}' is at "
        f"{middle[best] / ceiling:.0%} of it. The rest is what is no product: softmax, norms, GELU, the loss, AdamW, "
        "telemetry, validation and the sampling of tokens.\n\n"
        f"Of that sweep's {spent.total:.0f} s, {spent.planning:.1f} were planning, {spent.training:.0f} training "
        f"and {spent.finishing:.1f} labels and checksums (medians). The workers computed for "
        f"{spent.busy / WORKERS / spent.training:.0%} of the time of training. A sweep of one step takes "
        f"{begun:.1f} s, which is what there is besides the runs: the workers' start, plan, files. Drawing a run's "
        f"tokens takes {sampled:.2f} s, {sampled * RUNS / WORKERS / spent.training:.0%} of the time of training on "
        "each worker; what telemetry and validation take, `trainwreck bench train` says.\n\n"
        f"A second thread makes the plain loop {second:.2f} times as fast. So to be {GOALS[PLAIN]:g} times as fast as "
        f"that on {WORKERS} cores, each has to be {GOALS[PLAIN] * second / WORKERS:.2f} times the plain loop on one "
        f"thread, with telemetry and validation, which that has not; it is {each:.2f} times it."
    )
    return Limit(
        text=text,
        columns=("what", "GFLOP/s in products", f"of the peak of {THREADS} threads", "runs/hour"),
        rows=tuple(
            (name, rate / 1e9, rate / peaks[THREADS], round(HOUR * rate / operations)) for name, rate in rates.items()
        ),
    )


def goals(speeds: dict[str, np.ndarray]) -> tuple[Goal, ...]:
    """Of the healthy sweep, against the peers that there are."""
    best = _best(speeds)
    return tuple(
        Goal(best, peer, asked, float(np.median(speeds[best] / speeds[peer])))
        for peer, asked in GOALS.items()
        if peer in speeds
    )
