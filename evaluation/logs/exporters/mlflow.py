"""MLflow: its database, `mlflow ui --backend-store-uri sqlite:///OUT/mlflow.db`, written by the library itself.

The labels of a run are in its tags. The database has no infinity: it holds the largest double.
The library's own reports to its makers are off.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.logs.exporters.series import facts, series

FILE = "mlflow.db"
EXPERIMENT = "trainwreck"
BATCH = 1000  # points that one call takes


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """One database with one experiment and a run a run."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read at its import, and again later: not put back
    require("sqlalchemy", "mlflow")
    tracking, entities = require("mlflow.tracking", "mlflow"), require("mlflow.entities", "mlflow")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)  # it tells of every table that it makes
    client = tracking.MlflowClient(f"sqlite:///{(folder / FILE).resolve()}")
    artifacts = (out / "artifacts").resolve().as_uri()
    experiment = client.create_experiment(EXPERIMENT, artifact_location=artifacts)
    written = {}
    for run_id in run_ids:
        tags = {name: str(value) for name, value in facts(dataset.run(run_id)).items()}
        run = client.create_run(experiment, run_name=run_id, start_time=0, tags=tags)
        batch = []
        for one in series(dataset.trace(run_id)):
            for step, value in zip(one.steps.tolist(), one.values.tolist(), strict=True):
                batch.append(entities.Metric(one.name, value, step, step))
                if len(batch) == BATCH:
                    client.log_batch(run.info.run_id, batch)
                    batch = []
        if batch:
            client.log_batch(run.info.run_id, batch)
        client.set_terminated(run.info.run_id, end_time=0)
        written[run_id] = f"{FILE}, run {run.info.run_id}"
    return written
