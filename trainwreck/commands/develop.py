"""Develop: proofs, audits, training of the detector `learned`, benchmarks."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwreck.commands import choices
from trainwreck.commands.choices import DATA_SET, PATH, SCENARIO, SEEDS, OneOf
from trainwreck.commands.options import (
    as_backend,
    as_json,
    as_severity,
    as_size,
    backend_options,
    check_weights,
    data_set,
    default_workers,
    severity_option,
    size_option,
    text_option,
    workers_option,
)
from trainwreck.commands.tables import number, print_json, print_table, shortened
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.evaluation.short_forms import count

if TYPE_CHECKING:
    from trainwreck.evaluation.audits.leakage import Audit
    from trainwreck.scenarios.proof.verify import Proof

WORST = 10  # bases that are printed
QUICK = (
    "One seed and one severity a scenario: exit code 0 where signature, twin and cure hold on it "
    "(of a look-alike that it ends as its twin does)."
)


@click.command()
@click.argument("words", nargs=-1, type=SCENARIO, metavar="[ID ...] [KEY=VALUE ...]")
@click.option(
    "--family",
    type=OneOf(choices.FAMILIES, shown=False),
    metavar="FAMILY",
    multiple=True,
    help="Only scenarios of this family. May be repeated.",
)
@click.option("--seeds", type=click.IntRange(2, 10_000), default=8, show_default=True)
@click.option(
    "--first-seed",
    "first",
    type=SEEDS,
    help="Other seeds, to find settings on: the table says whether it holds there. A proof starts at 0, the default.",
)
@click.option("--fresh", is_flag=True, help="Seeds that are drawn now: the second half of a recorded proof.")
@click.option("--quick", is_flag=True, help=QUICK)
@click.option("--part", metavar="K/N", help="The K-th of N parts of the scenarios, in the order of `list`.")
@severity_option
@size_option
@text_option
@click.option("--out", type=PATH, default=Path("results/runs/verify"), show_default=True)
@click.option("--record", is_flag=True, help="Enter the result into the committed table of proofs.")
@workers_option
@backend_options
@as_json
def verify(
    words: Sequence[str],
    family: Sequence[str],
    seeds: int,
    first: int | None,
    fresh: bool,
    quick: bool,
    part: str | None,
    severity: str | None,
    size: str | None,
    text: Path | None,
    out: Path,
    record: bool,
    workers: int | None,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """Prove scenarios on many seeds.

    Faulty, twin and cured runs are trained and judged. Slices (ids, families, severities) resume alone, share their
    healthy runs in one folder, and with --record go into one table.
    """
    from trainwreck.scenarios.datasets.plans import cut
    from trainwreck.scenarios.proof import verify
    from trainwreck.scenarios.proof.record import enter, markdown
    from trainwreck.scenarios.spec.overrides import on_text

    if quick and record:
        raise InputError("record: a quick look is no proof; allowed: --record without --quick")
    if fresh and (quick or first is not None):
        raise InputError("--fresh: not allowed beside --quick and --first-seed; allowed: one of them")
    # Fewer seeds, or others than the proof's, tell whether it holds on them, and prove nothing.
    trial = quick or fresh or bool(first) or seeds < verify.FEWEST_SEEDS
    if fresh:
        first = verify.fresh_seed(out)
    names = chosen(words, family)
    if part is not None:
        names = cut(names, part, "the scenarios")
    overrides = [*(word for word in words if "=" in word), *on_text(text)]
    where = as_backend(device, impl)
    proofs: list[Proof] = []
    # One data set a scenario is a slice that resumes alone; a quick look is one slice, which keeps every worker busy.
    for slice_ in [names] if quick else [[name] for name in names]:
        with progress(f"verify {slice_[0] if len(slice_) == 1 else f'{len(slice_)} scenarios'}", quiet=as_json) as tick:
            proofs += verify.verify(
                slice_,
                out,
                seeds=1 if quick else seeds,
                first=first or 0,
                size=as_size(size),
                severity=as_severity(severity),
                one_severity=quick,
                overrides=overrides,
                workers=workers or default_workers(where.device),
                backend=where,
                progress=lambda done, total, steps, all_steps, left: tick(
                    steps, all_steps, f"bundle {done}/{total}", left
                ),
            )
        if record:
            enter(proofs, fresh=first if fresh else None)
    rows = verify.to_rows(proofs)
    if as_json:
        print_json(rows)
    else:
        print(markdown(rows, "holds" if trial else "proven"), end="")
    if not all(p.holds if trial else p.proven for p in proofs):
        sys.exit(1)


def chosen(words: Sequence[str], families: Sequence[str]) -> list[str]:
    """Ids of the scenarios that words or families name; all where neither does."""
    from trainwreck.scenarios.spec.registry import scenario, scenarios

    named = [scenario(word).id for word in words if "=" not in word]
    if named and families:
        raise InputError(f"family: {families[0]!r} is not allowed beside {named[0]!r}; allowed: ids or families")
    return named or [name for name, entry in scenarios().items() if not families or entry.family.value in families]


@click.command()
@data_set
@as_json
def audit(dir: Path, as_json: bool) -> None:
    """Test whether anything before the failure gives it away.

    A boosted classifier is tried on each channel: the first rows, missing values, number formats, the run's length,
    the order of the runs; apart from these the context of the informed track, and what the harness withholds. Exit
    code 0: nothing on the blind track does better than the majority prior; 1: something does.
    """
    from trainwreck.evaluation.audits.leakage import audit as examine
    from trainwreck.evaluation.dataset.dataset import load

    dataset = load(dir)
    with progress("audit", quiet=as_json) as tick:
        found = examine(dataset, tick)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_audit(found)
    if found.leaks:
        sys.exit(1)


@click.command()
@click.argument("dirs", nargs=-1, required=True, metavar="DIR ...", type=DATA_SET)
@click.option(
    "--profile",
    "profiles",
    type=OneOf(choices.PROFILES),
    multiple=True,
    help="Only this one; all by default. May be repeated.",
)
@click.option("--record", is_flag=True, help="Write results/equivalence/ and the sets that scores use.")
@as_json
def equivalence(dirs: Sequence[Path], profiles: Sequence[str], record: bool, as_json: bool) -> None:
    """Find causes that no signal tells apart.

    By profile; also those that it does not show at all. Several data sets are taken as one. A cause needs failing runs
    of 8 seeds, on bases with 8 healthy runs.
    """
    from trainwreck.evaluation.audits.confusable.equivalence import equivalence as measure
    from trainwreck.evaluation.audits.confusable.record import page, summary
    from trainwreck.evaluation.audits.confusable.record import record as write
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.replay.profiles import PROFILES

    if record and profiles:
        raise InputError(f"--profile: {profiles[0]!r} is not allowed with --record; allowed: all profiles")
    datasets = [load(dir) for dir in dirs]
    with progress("equivalence", quiet=as_json) as tick:
        found = measure(datasets, profiles or tuple(PROFILES), tick)
    if record:
        from trainwreck.scenarios.training.environment import environment

        write(found, "trainwreck equivalence DIR ... --record", environment())
    if as_json:
        return print_json(found)
    print(page(found, "trainwreck equivalence") if len(found["profiles"]) == 1 else "\n".join(summary(found)))


def _print_audit(found: "Audit") -> None:
    print_table(
        ("channel", "track", "failing", "others", "balanced accuracy", "p", "verdict"),
        [
            (c.name, c.track, c.failing, c.others, f"{number(c.accuracy)} [{number(c.low)}, {number(c.high)}]",
             number(c.p), c.verdict)
            for c in found.channels
        ],
    )  # fmt: skip
    print("the majority prior has 0.500; rows under the fault are left out")
    cause = found.cause
    if cause["from_base"] is not None:
        print(
            f"the cause, of a run that fails: the base alone names {number(cause['from_base'])} of {cause['causes']} "
            f"causes' runs, the most frequent cause {number(cause['prior'])}"
        )
    if found.advice:
        print(found.advice)
        print_table(
            ("base", "failing", "healthy", "look-alike", "lacking", "scenarios"),
            [
                (b["base"], b["failing"], b["healthy"], b["look_alike"], b["lacking"], shortened(b["scenarios"]))
                for b in found.bases[:WORST]
                if b["lacking"]
            ],
        )


@click.command()
@data_set
@click.option("--out", type=PATH, default=Path("learned.npz"), show_default=True, help="File of the weights.")
@click.option(
    "--logs", type=PATH, multiple=True, metavar="DIR", help="A further data set for the trees that judge public logs."
)
@click.option(
    "--keep", type=PATH, metavar="FILE", help="Train the trees for logs alone; the rest is that of these weights."
)
@as_json
def learn(dir: Path, out: Path, logs: tuple[Path, ...], keep: Path | None, as_json: bool) -> None:
    """Train the detector `learned` on a data set.

    It is trained on the train split, and on nothing else. The weights that ship with the package were made so. To
    score others, write a file mine.py with the lines "from trainwreck.evaluation.detectors.learned.learned import
    with_weights" and "Mine = with_weights('learned.npz')", and give it as --detector mine.py:Mine. Recall is on seeds
    that were held out in turn; of the trees for logs, which see the usual signals of a public log alone, on setups.
    """
    from dataclasses import replace

    from trainwreck.evaluation.constants import BUDGETS
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.learned.model import read_model, write_model
    from trainwreck.evaluation.learning.logs import learn_logs
    from trainwreck.evaluation.learning.training import learn as train

    check_weights(out, "out")
    kept = read_model(keep) if keep else None
    datasets = [load(one) for one in (dir, *logs)]
    if kept is None:
        with progress("learn", quiet=as_json) as tick:
            kept = train(datasets[0], tick)
    with progress("learn, logs", quiet=as_json) as tick:
        found = learn_logs(datasets, tick)
    model = replace(kept, logs=found)
    write_model(out, model)
    facts = {
        "weights": str(out),
        "bytes": out.stat().st_size,
        "features": len(model.features),
        "causes": len(model.head.causes),
        "threshold": model.threshold,
        **model.about,
        "logs": {"threshold": found.threshold, **found.about},
    }
    if as_json:
        return print_json(facts)
    held_out = model.about["held_out"]
    print_table(
        ("profile", *(f"in-time recall at {budget:.0%}" for budget in BUDGETS)),
        [
            (profile, *(number(recall[f"recall_{budget}"]) for budget in BUDGETS))
            for profile, recall in (
                *held_out["recall"].items(),
                *((f"{profile}, trees for logs", recall) for profile, recall in found.about["held_out"].items()),
            )
        ],
    )
    runs = _kinds(model.about["runs"])
    together: Counter[str] = Counter()
    for one in found.about["data_sets"]:
        together.update(one["runs"])
    print(f"on seeds held out in turn; the cause is named right, or unknown right, {held_out['cause']:.0%} of the time")
    print(f"{out}: {facts['bytes'] / 1024:.0f} KiB, {facts['causes']} causes, from {runs} runs")
    print(f"the trees for logs: from {_kinds(together)} runs on {count(found.about['setups'], 'setup')}")


def _kinds(runs: Mapping[str, int]) -> str:
    return ", ".join(f"{size} {kind}" for kind, size in runs.items())


@click.command(no_args_is_help=True)
@click.argument("what", metavar="WHAT", type=OneOf(choices.MEASUREMENTS))
@click.option("--record", is_flag=True, help="Write the result under results/.")
@as_json
def bench(what: str, record: bool, as_json: bool) -> None:
    """Measure speed against named peers.

    The last ten measure a claim under results/ again.

    \b
    train        training steps a second, with telemetry and without
    generate     a whole sweep, against trainers that do one run at a time
    score        from files to a scorecard, against TSB-AD's metrics
    attention    attention with its statistics, against PyTorch's
    cuda         training steps a second on a CUDA device; needs one
    rescue       episodes that a policy may act on, against plain runs
    reliability  generate with workers and parents killed, disk and memory taken
    reproducers  every scenario's program; stopped, it goes on where it was
    starts       its outcome from starts that differ in their last bits; the same
    fidelity     mechanisms, against the numbers of the literature
    language     what the model loses without each part of the language
    machines     the plan `sample` here beside the shipped one: what two processors agree in
    products     the plan `sample` with bfloat16 products beside float32: what their labels agree in
    objectives   where healthy runs of each objective begin and end, and their floors
    wild         how often each failure harms a drawn setup, and what harmed setups share: counted, not trained
    replay       one row at a time to a detector's process, against batches
    """
    from trainwreck.scenarios.bench import measure

    with progress(f"bench {what}", quiet=as_json) as tick:
        table = measure(what, tick, record=record)
    if as_json:
        print_json(table.to_dict())
    else:
        print(table.text())


@click.command()
@as_json
def doctor(as_json: bool) -> None:
    """Show the environment and what runs in it."""
    from trainwreck.environment import examine

    facts = examine()
    if as_json:
        return print_json(facts)
    print_table(("what", "found"), [(k, v if isinstance(v, str) else json.dumps(v)) for k, v in facts.items()])
