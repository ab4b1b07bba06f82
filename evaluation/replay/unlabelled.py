"""Detectors on imported runs: their alarms without a score, as those runs have no label by experiment."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from trainwreck.evaluation.dataset.dataset import IMPORTED, DataSet
from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.replay import replay
from trainwreck.evaluation.replay.sandbox.isolated import Isolated
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector


def alarms_on(
    dataset: DataSet, detectors: Sequence[str], tick: Tick | None = None, limits: Limits | None = None
) -> list[dict[str, Any]]:
    """One entry a detector and run: the run's label (None without one) and the detector's alarms.

    The rows are those of the log, so a detector that counts rows counts them, not steps.
    """
    with opened(detectors, limits) as found:
        return alarms_of(dataset, found, tick)


@contextmanager
def opened(detectors: Sequence[str], limits: Limits | None = None) -> Iterator[dict[str, type[Detector] | Isolated]]:
    """Detectors by name, ready to replay; those with a process of their own are ended with the block."""
    with ExitStack() as stack:
        found = {}
        for name in detectors:
            found[name] = detector = open_detector(name, limits)
            if isinstance(detector, Isolated):
                stack.enter_context(detector)
        yield found


def alarms_of(
    dataset: DataSet, detectors: Mapping[str, type[Detector] | Isolated], tick: Tick | None = None
) -> list[dict[str, Any]]:
    """`alarms_on` with detectors that are open."""
    labels = {entry["run_id"]: entry["label"] for entry in dataset.manifest[IMPORTED]}
    found = []
    for done, trace in enumerate(dataset.traces(), start=1):
        last = int(trace.steps[-1])
        for name, detector in detectors.items():
            alarms = replay(detector, trace).to_dict()
            found.append({"detector": name, "label": labels[trace.run_id], "last_step": last, **alarms})
        if tick:
            tick(done, len(dataset), trace.run_id)
    order = {name: i for i, name in enumerate(detectors)}
    return sorted(found, key=lambda entry: order[entry["detector"]])


def refuse_imported(dataset: DataSet, what: str) -> None:
    """InputError where a data set holds imported runs, which `what` can't be done to."""
    if dataset.imported:
        raise InputError(
            f"{dataset.path}: imported runs have no label by experiment and can't be {what}; allowed: "
            f"`trainwreck score {dataset.path} --detector NAME`, which lists alarms"
        )
