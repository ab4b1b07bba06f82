"""What detectors say of real runs, as far as a threshold needs it: own alarms, and scores where the largest rises."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.leaderboard.entries import entry_name
from trainwreck.evaluation.leaderboard.stored_alarms import StoredAlarms, reduced
from trainwreck.evaluation.progress import Tick
from trainwreck.evaluation.replay.replay import about, is_isolated, replay
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.evaluation.replay.sandbox.opening import open_detector

PARTS = 8  # pieces of work for each process
AnyDetector = str | Detector | type[Detector]


@dataclass(frozen=True)
class Replays:
    """Detector to what it says of each run, in the order of the runs; and what it says of itself."""

    said: Mapping[str, Sequence[StoredAlarms]]
    about: Mapping[str, Mapping[str, Any]]


def replays(
    dataset: DataSet,
    run_ids: Sequence[str],
    detectors: Sequence[AnyDetector],
    *,
    workers: int = 1,
    limits: Limits | None = None,
    tick: Tick | None = None,
) -> Replays:
    """Every run through every detector, in as many processes as there are workers; the rows are those of the logs.

    InputError for a detector that can't be opened, before any work, and for a name that is there twice.
    """
    names = [entry_name(detector) for detector in detectors]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"detectors: {name!r} is named twice; allowed: each name once")
    found: dict[str, list[StoredAlarms]] = {}
    with ExitStack() as stack:
        subjects = _opened(detectors, limits, stack)
        facts = {name: about(subject) for name, subject in zip(names, subjects, strict=True)}
        if workers == 1:
            for run_id in run_ids:
                found[run_id] = _of_run(dataset, run_id, subjects)
                _report(tick, found, run_ids, run_id)
    if workers > 1:
        from joblib import Parallel, delayed

        # The longest first and shared out evenly: a run of a day has a hundred times the rows of another.
        longest = sorted(run_ids, key=lambda run_id: -len(dataset.trace(run_id)))
        parts = [part for i in range(PARTS * workers) if (part := longest[i :: PARTS * workers])]
        pool = Parallel(n_jobs=workers, backend="loky", return_as="generator")
        work: Callable[..., Any] = delayed(_elsewhere)
        for reply in pool(work(Path.cwd(), dataset.path, part, list(detectors), limits) for part in parts):
            found |= reply
            _report(tick, found, run_ids, next(reversed(reply)))
    return Replays({name: [found[run_id][i] for run_id in run_ids] for i, name in enumerate(names)}, facts)


def _opened(detectors: Sequence[AnyDetector], limits: Limits | None, stack: ExitStack) -> list[Any]:
    subjects: list[Any] = []
    for detector in detectors:
        subject = open_detector(detector, limits) if isinstance(detector, str) else detector
        subjects.append(stack.enter_context(subject) if is_isolated(subject) else subject)
    return subjects


def _of_run(dataset: DataSet, run_id: str, subjects: Sequence[Any]) -> list[StoredAlarms]:
    trace = dataset.trace(run_id)
    return [reduced(replay(subject, trace)) for subject in subjects]


def _elsewhere(
    here: Path, path: Path, run_ids: Sequence[str], detectors: Sequence[AnyDetector], limits: Limits | None
) -> dict[str, list[StoredAlarms]]:
    """Some runs in another process, which opens the files and makes the detectors for itself, in the same folder."""
    with contextlib.chdir(here), ExitStack() as stack:
        dataset, subjects = load(path, verify=False), _opened(detectors, limits, stack)
        return {run_id: _of_run(dataset, run_id, subjects) for run_id in run_ids}


def _report(tick: Tick | None, found: Mapping[str, object], run_ids: Sequence[str], run_id: str) -> None:
    if tick is not None:
        tick(len(found), len(run_ids), run_id)
