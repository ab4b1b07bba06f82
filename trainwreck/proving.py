"""The command that proves scenarios, whole or in slices."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.progress import progress
from trainwreck.options import (
    as_backend,
    as_json,
    as_severity,
    as_size,
    backend_options,
    default_workers,
    severity_option,
    size_option,
    workers_option,
)
from trainwreck.tables import print_json

if TYPE_CHECKING:
    from trainwreck.scenarios.proof.verify import Proof

QUICK = (
    "One seed and one severity a scenario: exit code 0 where signature, twin and cure hold on it "
    "(of a look-alike that it ends as its twin does)."
)


@click.command()
@click.argument("words", nargs=-1, metavar="[ID ...] [KEY=VALUE ...]")
@click.option("--family", multiple=True, help="Only scenarios of this family; may be given again.")
@click.option("--seeds", type=click.IntRange(2), default=8, show_default=True)
@click.option(
    "--first-seed",
    "first",
    type=click.IntRange(0),
    default=0,
    help="Other seeds, to find settings on; a proof starts at 0.",
)
@click.option("--quick", is_flag=True, help=QUICK)
@severity_option
@size_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("results/runs/verify"), show_default=True)
@click.option("--record", is_flag=True, help="Enter the result into the committed table of proofs.")
@workers_option
@backend_options
@as_json
def verify(
    words: Sequence[str],
    family: Sequence[str],
    seeds: int,
    first: int,
    quick: bool,
    severity: str | None,
    size: str | None,
    out: Path,
    record: bool,
    workers: int | None,
    device: str | None,
    impl: str | None,
    as_json: bool,
) -> None:
    """Prove scenarios: train faulty, twin and cured runs on many seeds and judge them.

    Slices (ids, families, severities) resume alone, share their healthy runs in one folder, and with
    --record go into one table.
    """
    from trainwreck.scenarios.proof import verify
    from trainwreck.scenarios.proof.record import enter, markdown

    if quick and record:
        raise InputError("record: a quick look is no proof; allowed: --record without --quick")
    names = chosen(words, family)
    overrides = [word for word in words if "=" in word]
    where = as_backend(device, impl)
    proofs: list[Proof] = []
    # One data set a scenario is a slice that resumes alone; a quick look is one slice, which keeps every worker busy.
    for slice_ in [names] if quick else [[name] for name in names]:
        with progress(f"verify {slice_[0] if len(slice_) == 1 else f'{len(slice_)} scenarios'}", quiet=as_json) as tick:
            proofs += verify.verify(
                slice_,
                out,
                seeds=1 if quick else seeds,
                first=first,
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
            enter(proofs)
    rows = verify.to_rows(proofs)
    if as_json:
        print_json(rows)
    else:
        print(markdown(rows, "holds" if quick else "proven"), end="")
    if not all(p.holds if quick else p.proven for p in proofs):
        sys.exit(1)


def chosen(words: Sequence[str], families: Sequence[str]) -> list[str]:
    """Ids of the scenarios that words or families name; all where neither does."""
    from trainwreck.scenarios.spec.registry import scenario, scenarios

    known = list(dict.fromkeys(entry.family.value for entry in scenarios().values()))
    for family in families:
        if family not in known:
            raise unknown("family", family, known)
    named = [scenario(word).id for word in words if "=" not in word]
    if named and families:
        raise InputError(f"family: {families[0]!r} is not allowed beside {named[0]!r}; allowed: ids or families")
    return named or [name for name, entry in scenarios().items() if not families or entry.family.value in families]
