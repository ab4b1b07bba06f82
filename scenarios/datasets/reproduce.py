"""Train a run of a data set again and compare every number with what is on record."""

import json
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import load
from trainwreck.evaluation.dataset.diff import Comparison, changed_environment, compare
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.unlabelled import refuse_imported
from trainwreck.scenarios.spec.run_spec import RunSpec
from trainwreck.scenarios.training.backend import recorded
from trainwreck.scenarios.training.environment import environment
from trainwreck.scenarios.training.loop import train


def reproduce(folder: Path, run_id: str) -> Comparison:
    """Train one run of a data set again, alone, on the backend on record, and compare.

    InputError for an unknown run, or a backend that is not here.
    """
    dataset = load(folder)
    refuse_imported(dataset, "trained again")
    row = dataset.run(run_id)
    spec = RunSpec.from_json(json.loads(row["spec"]))
    if spec.run_id != run_id:
        raise InputError(f"run {run_id}: its scenario has changed since; this version would train {spec.run_id}")
    spec.check_steps()
    used = recorded(dataset.manifest)
    again = train([spec.job()], device=used.device, impl=used.impl)[0].trace
    changed = changed_environment(dataset.manifest["environment"], environment())
    return compare(dataset.trace(run_id), again, changed)
