"""What it costs that a policy may act: episodes side by side, against the same runs trained in the same bundles."""

from collections.abc import Callable
from time import process_time

from trainwreck.evaluation.dataset.schema import Harm
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.table import Goal, Limit, Table
from trainwreck.scenarios.config.sizes import Size
from trainwreck.scenarios.rescue.board import play
from trainwreck.scenarios.rescue.episode import BLOCK
from trainwreck.scenarios.rescue.outcomes import Case, Outcome
from trainwreck.scenarios.rescue.policies import Never, Random
from trainwreck.scenarios.spec.run_spec import Role, RunSpec, family_of
from trainwreck.scenarios.training.bundle import bundle_width
from trainwreck.scenarios.training.loop import train

RUNS, STEPS = 64, 50
GOAL = 1.3
PLAIN = "plain runs"


def against_plain_runs(tick: Tick) -> Table:
    """Processor's time of episodes under a policy over that of the runs that nobody watches."""
    specs = healthy_runs(RUNS, STEPS)
    setup = specs[0].setup
    width = bundle_width(setup.data.rows, setup.model)
    episodes = [_case(spec) for spec in specs]
    ended: dict[str, list[Outcome]] = {}

    def under(policy: type[Never]) -> Callable[[], object]:
        return lambda: ended.update({policy.name: play(policy, episodes)})

    policies = (Never, Random)
    subjects: dict[str, Callable[[], object]] = {PLAIN: lambda: train([spec.job() for spec in specs])}
    subjects |= {_episodes(policy): under(policy) for policy in policies}
    train([specs[0].job()])  # what is slow the first time is done
    taken = {name: _seconds(work, done, len(subjects), tick) for done, (name, work) in enumerate(subjects.items())}
    rows = []
    for name, seconds in taken.items():
        found = ended.get(name.rpartition(" ")[2].strip("`"), [])
        steps = sum(one.trained for one in found) or RUNS * STEPS
        acts = sum(len(one.actions) for one in found)
        ratio = seconds / taken[PLAIN]
        per_step = ratio * RUNS * STEPS / steps
        rows.append((name, acts, steps, seconds / RUNS, ratio, per_step))
    return Table(
        name="bench/rescue",
        title="Episodes of rescue at size micro, one core, against plain runs",
        how=(
            f"Each once, one after the other, in one process; seconds are of the processor. {RUNS} healthy runs of "
            f"{STEPS} steps, side by side, in bundles of {width}; episodes are the same runs in blocks of {BLOCK} "
            "steps, before each of which a policy gets the rows and may act. The second ratio is of a step that was "
            "trained, since a rollback trains steps again. `random` acts one time in four, with every kind of action."
        ),
        command="trainwreck bench rescue --record",
        columns=("what", "actions", "steps trained", "seconds a run", f"x {PLAIN}", f"x {PLAIN}, a step"),
        rows=tuple(rows),
        limit=Limit(
            text=(
                "An episode can't cost less than its run. What it has on top is: a bundle built and a checkpoint "
                f"copied every {BLOCK} steps, where plain runs are built once; batches sampled for fifty steps at "
                "once, as plain runs have them; rows made of the log and read. After actions runs have "
                "programs of their own, and share bundles with fewer others."
            ),
            columns=("what", "seconds a run over plain runs"),
            rows=tuple((name, (s - taken[PLAIN]) / RUNS) for name, s in taken.items() if name != PLAIN),
        ),
        goals=(Goal(_episodes(Never), PLAIN, GOAL, taken[_episodes(Never)] / taken[PLAIN], least=False),),
    )


def _seconds(work: Callable[[], object], done: int, total: int, tick: Tick) -> float:
    """Of the processor, for doing the work once."""
    tick(done, total, "subject")
    start = process_time()
    work()
    return process_time() - start


def healthy_runs(runs: int, steps: int) -> list[RunSpec]:
    """Healthy runs of size micro, of as many seeds."""
    return family_of("mask_missing", range(runs), size=Size.MICRO, overrides=(f"steps={steps}",), roles=(Role.TWIN,))


def _case(spec: RunSpec) -> Case:
    """A run that has no label: what its losses are is not asked here."""
    return Case(spec, "healthy", (), None, None, None, spec.entry.tolerance, Harm.ABOVE, 0.0, 0.0)


def _episodes(policy: type[Never]) -> str:
    return f"episodes under `{policy.name}`"
