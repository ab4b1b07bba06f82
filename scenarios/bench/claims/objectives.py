"""Where healthy runs of each objective's base begin, what they reach, and what can't be beaten."""

from collections.abc import Callable
from math import log
from time import process_time

import numpy as np

from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.config import bases
from trainwreck.scenarios.config.settings import Setup, fingerprint
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

SEEDS = range(8)
# Each base, and what its validation loss is of.
BASES: tuple[tuple[Callable[[Setup], Setup], str], ...] = (
    (bases.refrain, "the true tokens of rows that the model goes on with by itself"),
    (bases.preferences, "right answers"),
    (bases.policy, "1 less the true reward of answers that the model draws"),
    (bases.policy_critic, "1 less the true reward, where advantages are a critic's"),
    (bases.denoiser, "the evidence bound, over masked tokens"),
    (bases.facts, "answers after passages that the model finds"),
    (bases.speech, "what is said in frames of speech"),
    (bases.captions, "pictures and captions"),
    (bases.transcripts, "what an encoder hears"),
)
HOW = (
    "Healthy runs of each base at the size {size}, seeds {first} to {last}: the validation loss at step 0 and at the "
    "last evaluation, lowest to highest of the seeds, in nats a token but under the objective policy. The floor is the "
    "mean exact -ln p of the same held-out tokens, and 0 of 1 less a reward; a bound over masks has it as its mean "
    "over all masks, of which held-out rows have some. {smoothed}Seconds are processor time of one core, with all "
    "telemetry, of the {runs} runs trained side by side, divided by {runs}."
)
SMOOTHED = "A model that predicts the smoothed labels of `{name}` exactly has {floor:.3f} where one token is certain. "


def where_healthy_runs_end(tick: Tick, size: Size = Size.MICRO) -> Table:
    """A row for each base, of 8 seeds; all of a base are trained side by side."""
    prepare()
    rows, smoothed = [], ""
    for done, (base, what) in enumerate(BASES):
        tick(done, len(BASES), base.__name__)
        setup = base(healthy(size))
        rows.append(row(base.__name__, what, setup))
        if setup.label_smoothing and not rows[-1][3]:
            smoothed += SMOOTHED.format(name=base.__name__, floor=smoothed_floor(setup))
    tick(len(BASES), len(BASES), "trained")
    return Table(
        name="objectives",
        title="Where healthy runs of each objective end",
        how=HOW.format(size=size.value, first=SEEDS[0], last=SEEDS[-1], smoothed=smoothed, runs=len(SEEDS)),
        command="trainwreck bench objectives --record",
        columns=("base", "objective", "validation loss of", "floor", "at the start", "reached", "s a run"),
        rows=tuple(rows),
    )


def row(name: str, what: str, setup: Setup) -> tuple[str, str, str, float, str, str, float]:
    """The runs of one base, trained here."""
    jobs = [Job(f"{fingerprint(setup)}-{seed}", seed, setup) for seed in SEEDS]
    start = process_time()
    results = train(jobs)
    seconds = process_time() - start
    losses = np.array([evaluations(result.trace.signals["validation_loss"]) for result in results])
    return (
        name,
        setup.objective.value,
        what,
        entropy_floor(setup),
        between(losses[:, 0]),
        between(losses[:, -1]),
        seconds / len(jobs),
    )


def evaluations(loss: np.ndarray) -> np.ndarray:
    """The first and the last value of those that are not NaN, [2]."""
    first, *_, last = loss[~np.isnan(loss)].tolist()
    return np.array([first, last])


def between(values: np.ndarray) -> str:
    """The lowest and the highest, in words; of under a thousandth as many digits as it takes.

    >>> between(np.array([0.5, 4.0, 1.25])), between(np.array([0.00002, 0.1]))
    ('0.500 to 4.000', '2e-05 to 0.100')
    """
    return " to ".join(f"{v:.3f}" if v == 0 or abs(v) >= 1e-3 else f"{v:.0e}" for v in (values.min(), values.max()))


def smoothed_floor(setup: Setup) -> float:
    """-ln p of a certain token under the distribution that smoothed labels are, nats."""
    return -log(1 - setup.label_smoothing + setup.label_smoothing / setup.model.vocab_size)
