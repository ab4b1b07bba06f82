"""TensorBoard: RUN/events.out.tfevents.0, a float32 scalar a point.

The time of an event is its step in seconds, as the run's own clock is a modelled one: the same run
gives the same bytes. `tensorboard --logdir OUT` shows them all.
"""

from collections.abc import Sequence
from pathlib import Path

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.extras import require
from trainwreck.evaluation.logs.exporters.series import by_step

FILE = "events.out.tfevents.0"
VERSION = "brain.Event:2"  # what a file's first event must say


def write(dataset: DataSet, run_ids: Sequence[str], folder: Path, out: Path) -> dict[str, str]:
    """A folder with one event file a run."""
    events = require("tensorboard.compat.proto.event_pb2", "tensorboard")
    summaries = require("tensorboard.compat.proto.summary_pb2", "tensorboard")
    writers = require("tensorboard.summary.writer.record_writer", "tensorboard")
    for run_id in run_ids:
        (folder / run_id).mkdir()
        with (folder / run_id / FILE).open("wb") as file:
            writer = writers.RecordWriter(file)
            writer.write(events.Event(wall_time=0.0, file_version=VERSION).SerializeToString())
            for step, row in by_step(dataset.trace(run_id)):
                values = [summaries.Summary.Value(tag=name, simple_value=value) for name, value in row.items()]
                event = events.Event(wall_time=float(step), step=step, summary=summaries.Summary(value=values))
                writer.write(event.SerializeToString())
    return {run_id: f"{run_id}/{FILE}" for run_id in run_ids}
