"""What holds between two kinds of processor: the shipped sample beside the same plan trained here."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.diff import (
    NO_RETURN_WITHIN,
    VISIBLE_WITHIN,
    Summary,
    compare_data_sets,
    summarise,
)
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table

KEPT = Path("results/runs/machines")
SAMPLE, UNSTABLE = "sample", "unstable"
# The second: scenarios that amplify rounding, by the differences on record in results/reproducers.
PLANS = {
    SAMPLE: ("sample",),
    UNSTABLE: (
        "scenario=adam_beta2_low,lr_jump,slow_divergence,softmax_unshifted,warmup_too_short,weight_decay_too_low",
        "seed=range(2)",
    ),
}
SHIPPED, HERE, AGAIN, LIMITED = "shipped", "here", "again", "limited"
# Without wide vector instructions: a stand-in for another kind of processor.
WITHOUT_AVX = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
LIMITS: dict[str, dict[str, str]] = {HERE: {}, AGAIN: {}, LIMITED: WITHOUT_AVX}
# Plan, and the two of its data sets that are compared.
PAIRS = (
    (SAMPLE, HERE, AGAIN),
    (SAMPLE, SHIPPED, HERE),
    (SAMPLE, HERE, LIMITED),
    (SAMPLE, SHIPPED, LIMITED),
    (UNSTABLE, HERE, LIMITED),
)
HOW = (
    "Each data set was trained and labelled on one thread. shipped: the package's own sample, made on {shipped}; "
    "here: {here}; again: the same once more; limited: the same processor with {settings}, a stand-in for one without "
    "wide vector instructions. The plan sample has {runs} runs; the plan unstable, `{unstable}`, has six scenarios "
    "that amplify rounding, with the healthy runs of their bases. `trainwreck diff` compares two data sets. First "
    "differing step: the median over the runs that are not bitwise identical, lowest and highest in brackets; a "
    "difference in the last bit of one signal counts. Loss apart: the largest of any run in nats, of the training loss "
    "at one step and of the last validation loss, where both are finite. Labels: runs of another kind, of all; runs "
    "whose first visible step differs by more than {steps} steps, and runs whose point of no return does by more than "
    "{share:.0%} of the run, of those that have one."
)


def between_processors(tick: Tick) -> Table:
    """Train and label the plans under each of the settings, and compare the data sets. What is there is not made again.

    InputError where `generate` or `label` ends with an error.
    """
    sets = {(SAMPLE, SHIPPED): load(sample())}
    wanted = dict.fromkeys((plan, name) for plan, *names in PAIRS for name in names if name != SHIPPED)
    for done, (plan, name) in enumerate(wanted):
        tell = line_tick(tick, done, len(wanted), f"{plan} {name}")
        sets[plan, name] = made(PLANS[plan], KEPT / plan / name, LIMITS[name], tell)
    tick(len(wanted), len(wanted), "compared")
    return table(sets)


def line_tick(tick: Tick, done: int, total: int, what: str) -> Callable[[str], None]:
    """Report the part `what` as begun, and give a function that reports each line its process prints."""
    tick(done, total, what)
    return lambda line: tick(done, total, f"{what}, {line}")


def made(plan: Sequence[str], folder: Path, limits: dict[str, str], tell: Callable[[str], None]) -> DataSet:
    """A plan in a folder, trained and labelled in processes that have these environment variables.

    tell: called with each line of progress.
    """
    for words in (("generate", *plan, "--out", str(folder)), ("label", str(folder))):
        command = [sys.executable, "-m", "trainwreck", *words]
        line = "no message"
        with subprocess.Popen(
            command, env={**os.environ, **limits}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            for line in filter(None, map(str.strip, process.stderr or ())):
                tell(line)
        if process.returncode:
            raise InputError(f"{' '.join(words)}: ended with {process.returncode}: {line}")
    return load(folder)


def table(sets: dict[tuple[str, str], DataSet]) -> Table:
    """The pairs of data sets beside each other. sets: by plan and name."""
    found = {(plan, a, b): _summary(sets[plan, a], sets[plan, b]) for plan, a, b in PAIRS}
    limits = " ".join(f"{name}={value}" for name, value in WITHOUT_AVX.items())
    across = found[SAMPLE, SHIPPED, HERE]
    return Table(
        name="machines",
        title=(
            f"Between processors {across.identical} of {across.runs} runs of the sample are bitwise identical, "
            f"and {across.runs - across.kinds} of {across.runs} have the same kind"
        ),
        how=HOW.format(
            shipped=_processor(sets[SAMPLE, SHIPPED]),
            here=_processor(sets[SAMPLE, HERE]),
            settings=f"`{limits}`",
            runs=across.runs,
            unstable=" ".join(PLANS[UNSTABLE]),
            steps=VISIBLE_WITHIN,
            share=NO_RETURN_WITHIN,
        ),
        command="trainwreck bench machines --record",
        columns=(
            "plan", "data sets", "bitwise identical", "first differing step", "training loss apart", "last loss apart",
            "kind", "visible step", "point of no return",
        ),
        rows=tuple((plan, f"{a} and {b}", *_cells(summary)) for (plan, a, b), summary in found.items()),
    )  # fmt: skip


def _summary(one: DataSet, other: DataSet) -> Summary:
    return summarise(one, other, list(compare_data_sets(one, other)))


def _processor(data: DataSet) -> str:
    """The processor on which a data set was made, and the instruction set that PyTorch used there."""
    environment = data.manifest["environment"]
    return f"{environment['processor']} with {environment['cpu_capability']}"


def _cells(summary: Summary) -> tuple[str, ...]:
    steps = "-" if summary.first_steps is None else "{1:g} ({0} to {2})".format(*summary.first_steps)
    return (
        f"{summary.identical} of {summary.runs}",
        steps,
        f"{summary.loss_difference:.2g}",
        f"{summary.final_difference:.2g}",
        f"{summary.kinds} of {summary.runs}",
        f"{summary.visible} of {summary.visible_runs}",
        f"{summary.no_return} of {summary.no_return_runs}",
    )
