"""`trainwreck release`: the form in which a data set is handed to others."""

from collections.abc import Sequence
from pathlib import Path

import click

from trainwreck.evaluation.progress import progress
from trainwreck.options import as_json, folder
from trainwreck.tables import print_json


@click.command()
@folder
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the release.")
@click.option("--private", is_flag=True, help="Only the private runs, with those to calibrate on.")
@click.option("--published", metavar="DAY", help="Day of publication for the metadata, as 2026-01-31.")
@click.option("--url", help="The data's page, for the metadata.")
@click.option(
    "--profile", "profiles", multiple=True, default=("full",), show_default=True, help="Of the table of baselines."
)
@as_json
def release(
    dir: Path,
    out: Path,
    private: bool,
    published: str | None,
    url: str | None,
    profiles: Sequence[str],
    as_json: bool,
) -> None:
    """A data set's released form: Parquet by split, card, Croissant metadata, checksums; private runs left out."""
    from joblib import cpu_count

    from trainwreck.evaluation.release import release as write

    with progress("release", quiet=as_json) as tick:
        dataset = write(
            dir,
            out,
            private=private,
            published=published,
            url=url,
            profiles=tuple(profiles),
            tick=tick,
            workers=cpu_count(),
        )
    splits = dataset.manifest["release"]["splits"]
    if as_json:
        return print_json({"release": str(out), "runs": len(dataset), "splits": splits})
    print(f"{out}: {len(dataset)} runs ({', '.join(f'{runs} {split}' for split, runs in splits.items())})")
