"""W&B: an offline run a run, by the library itself: `wandb sync OUT/wandb/offline-run-*` sends them.

Nothing is sent from here, and nothing of this machine is in them: no host, no packages, no console.
The labels of a run are in its config. A number is JSON, which holds a float32 exactly.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.logs.exporters.series import by_step, facts

PROJECT = "trainwreck"


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """A folder `wandb/offline-run-...` a run, with its `.wandb` file."""
    with _quiet(folder):
        wandb = require("wandb", "wandb")
        settings = wandb.Settings(
            mode="offline",
            host="",
            username="",
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_save_requirements=False,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
        )
        written = {}
        for run_id in run_ids:
            run = wandb.init(
                project=PROJECT, dir=str(folder), id=run_id, name=run_id, config=facts(dataset.run(run_id)),
                settings=settings, reinit="finish_previous",
            )  # fmt: skip
            for step, row in by_step(dataset.trace(run_id)):
                run.log(row, step=step)
            run.finish()
            (file,) = (folder / "wandb").glob(f"offline-run-*-{run_id}/*.wandb")
            shutil.rmtree(file.parent / "logs", ignore_errors=True)  # of the library: paths of this machine
            written[run_id] = file.relative_to(folder).as_posix()
        wandb.teardown()
    return written


@contextmanager
def _quiet(folder: Path) -> Iterator[None]:
    """No error reports to W&B, and its caches in a folder that goes; the environment is put back."""
    caches = folder.parent / "caches"
    places = {f"WANDB_{name}_DIR": str(caches / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    changed = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true", **places}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
