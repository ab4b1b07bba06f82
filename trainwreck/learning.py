"""The command that trains the detector `learned`."""

import os
from pathlib import Path

import click

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import progress
from trainwreck.options import as_json, data_set
from trainwreck.tables import number, print_json, print_table


@click.command()
@data_set
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("learned.npz"),
    show_default=True,
    help="File of the weights.",
)
@as_json
def learn(dir: Path, out: Path, as_json: bool) -> None:
    """Train the detector `learned` on the train split of a data set, and on nothing else of it.

    The weights that ship with the package were made so. To score others, write a file mine.py with the lines
    "from trainwreck.evaluation.detectors.learned.learned import with_weights"
    and "Mine = with_weights('learned.npz')", and give it as
    --detector mine.py:Mine. Recall is on seeds that were held out in turn.
    """
    from trainwreck.evaluation.constants import BUDGETS
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.learned.model import write_model
    from trainwreck.evaluation.learning.training import learn as train

    _refuse(out)
    dataset = load(dir)
    with progress("learn", quiet=as_json) as tick:
        model = train(dataset, tick)
    write_model(out, model)
    facts = {
        "weights": str(out),
        "bytes": out.stat().st_size,
        "features": len(model.features),
        "causes": len(model.head.causes),
        "threshold": model.threshold,
        **model.about,
    }
    if as_json:
        return print_json(facts)
    held_out = model.about["held_out"]
    print_table(
        ("profile", *(f"in-time recall at {budget:.0%}" for budget in BUDGETS)),
        [
            (profile, *(number(found[f"recall_{budget}"]) for budget in BUDGETS))
            for profile, found in held_out["recall"].items()
        ],
    )
    runs = ", ".join(f"{count} {kind}" for kind, count in model.about["runs"].items())
    print(f"on seeds held out in turn; the cause is named right, or unknown right, {held_out['cause']:.0%} of the time")
    print(f"{out}: {facts['bytes'] / 1024:.0f} KiB, {facts['causes']} causes, from {runs} runs")


def _refuse(out: Path) -> None:
    """InputError for a file that could not be written in the end, told before minutes of work."""
    if out.suffix != ".npz" or out.is_dir():
        raise InputError(f"out: {str(out)!r} is not allowed; allowed: a file that ends in .npz")
    there = next(folder for folder in out.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"out: {str(out)!r} can't be written; allowed: a file in a folder that can be")
