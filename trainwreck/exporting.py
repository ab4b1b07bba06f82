"""`trainwreck export`: runs in another tool's format, and a scenario as one plain PyTorch file."""

from collections.abc import Sequence
from pathlib import Path

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.options import as_json, as_severity, severity_option
from trainwreck.tables import print_json

OUT = "Of runs a folder that is new or empty; of a scenario a file, ID.py by default."


@click.command()
@click.argument("what", metavar="ID|DIR")
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID ...]")
@click.option("--to", help="Of runs: tensorboard, wandb, mlflow, trackio or timeeval.")
@click.option("--out", type=click.Path(path_type=Path), help=OUT)
@click.option("--seed", type=click.IntRange(0), help="Of a scenario; 0 by default.")
@severity_option
@click.option("--force", is_flag=True, help="Of a scenario: in place of a file that is there.")
@as_json
def export(
    what: str,
    run_ids: Sequence[str],
    to: str | None,
    out: Path | None,
    seed: int | None,
    severity: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """A scenario as one plain PyTorch file, or with --to runs of a data set in another tool's format.

    ID: the file needs PyTorch and NumPy alone. It trains the twin, the faulty and the cured run, prints what tells, and
    exits with 0 where the signature is there and the cure works.

    DIR: all runs of a data set, or those named. Every number that was recorded is in it, and runs.csv beside says what
    is true of each run. tensorboard, wandb (offline) and mlflow need their libraries: pip install 'trainwreck[export]'.
    """
    if to is not None:
        for option, value in (("--seed", seed), ("--severity", severity), ("--force", force or None)):
            if value is not None:
                raise InputError(f"{option}: {value!r} is not allowed with --to; allowed: for a scenario")
        return _runs(Path(what), run_ids, to, out, as_json)
    from trainwreck.scenarios.spec.registry import scenarios

    if Path(what).is_dir():
        also = ", and a scenario too" if what in scenarios() else ""
        raise InputError(
            f"export: {what!r} is a folder here{also}; allowed: --to for its runs, or a scenario where no folder "
            "has its name"
        )
    if run_ids:
        raise InputError(f"RUN_ID: {run_ids[0]!r} is not allowed for a scenario; allowed: with a data set and --to")
    from trainwreck.scenarios.reproducers.export import write

    file = write(what, out or Path(f"{what}.py"), seed=seed or 0, severity=as_severity(severity), force=force)
    print_json({"scenario": what, "file": str(file)}) if as_json else print(file)


def _runs(dir: Path, run_ids: Sequence[str], to: str, out: Path | None, as_json: bool) -> None:
    """Runs of a data set in another tool's format."""
    if out is None:
        raise InputError("--out: missing; allowed: a folder that is new or empty")
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.logs.exporters import export as write

    written = write(load(dir), to, out, run_ids)
    if as_json:
        return print_json({"out": str(out), "to": to, "runs": written})
    for run_id, file in written.items():
        print(f"{run_id}: {out / file}")
