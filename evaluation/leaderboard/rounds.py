"""Runs through entries, in rounds: in this process or in several, each trace read once and shown to all."""

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from trainwreck.evaluation.dataset.dataset import DataSet
from trainwreck.evaluation.errors import WorkerLostError
from trainwreck.evaluation.leaderboard.entries import AnyDetector, Entry
from trainwreck.evaluation.replay.replay import Alarms, is_isolated, replay
from trainwreck.evaluation.scoring.reference import Baseline

if TYPE_CHECKING:
    from trainwreck.evaluation.leaderboard.shortcuts import Shortcut
    from trainwreck.evaluation.replay.sandbox.limits import Limits

CHUNK = 8  # runs a process replays at a time, at least
ROUNDS = 4  # pieces of work for each process where detectors need processes of their own, which take time to begin


class Round(NamedTuple):
    """Runs that entries are shown under profiles; those with a process of their own in one that they share with no
    other round."""

    entries: Sequence[Entry]
    runs: pd.DataFrame
    profiles: Sequence[str]


def rounds_of(
    entries: Sequence[Entry], runs: pd.DataFrame, profiles: Sequence[str], workers: int, twins_apart: bool
) -> list[Round]:
    """Each run to each entry: those of this process together, then each with a process of its own, by profile, so that
    one is finished before the next begins. Runs are in the order given."""
    apart = [entry for entry in entries if is_isolated(entry.make)]
    together = [entry for entry in entries if entry not in apart]
    size = len(runs) if workers == 1 else CHUNK
    rounds = [
        Round(together, runs.iloc[i : i + size], [profile])
        for profile in profiles
        for i in range(0, len(runs) if together else 0, max(1, size))
    ]
    if workers > 1:
        size = max(CHUNK, -(-len(runs) // (ROUNDS * workers)))
    parts = twin_sets_apart(runs) if twins_apart else [runs.index.tolist()]
    rounds += [
        Round([entry], runs.loc[part[i : i + size]], [profile])
        for profile in profiles
        for entry in apart
        for part in parts
        for i in range(0, len(part), max(1, size))
    ]
    return rounds


def by_workers(
    dataset: DataSet,
    rounds: Sequence[Round],
    frame: Baseline,
    workers: int,
    limits: "Limits | None",
    isolate: bool,
    settings: tuple[Any, ...],
    runs: int,
) -> Iterator[Any]:
    """What `replay_runs` gives of each round, by processes. WorkerLostError where one dies."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator")
    try:
        yield from pool(
            delayed(_elsewhere)(
                Path.cwd(), dataset.path, one.runs, frame, [(entry.detector, entry.name) for entry in one.entries],
                limits, isolate, runs, min(1.0, workers * len(one.runs) / runs), one.profiles, *settings,
            )
            for one in rounds
        )  # fmt: skip
    except TerminatedWorkerError:
        raise WorkerLostError("a process that replayed detectors was killed, or ran out of memory") from None


def replay_runs(
    dataset: DataSet,
    run_ids: Sequence[str],
    entries: Sequence[Entry],
    profiles: Sequence[str],
    track: str,
    k: int,
    known: Collection[str],
    shortcuts: "Mapping[str, Shortcut]",
) -> dict[str, dict[tuple[str, str], Alarms]]:
    """What each entry says of some runs: by run, then profile and name."""
    found: dict[str, dict[tuple[str, str], Alarms]] = {}
    for run_id in run_ids:
        run = dataset.run(run_id)
        context = json.loads(run["context"] or "{}") if track == "informed" else None
        trace = dataset.trace(run_id)
        found[run_id] = {
            (profile, entry.name): (
                entry.oracle(run, profile)
                if entry.oracle is not None
                else replay(entry.maker(run, profile, shortcuts), trace, profile, context, k=k, known=known)
            )
            for profile in profiles
            for entry in entries
        }
    return found


def twin_sets_apart(runs: pd.DataFrame) -> list[list[str]]:
    """Run ids in parts, in each of which no two runs have the same base and seed; the order is kept within a part."""
    place = runs.groupby(["base", "seed"]).cumcount()
    return [part["run_id"].tolist() for _, part in runs.groupby(place)]


def with_new_processes(run_ids: Iterable[str], entries: Sequence[Entry], new: bool) -> Iterator[str]:
    """The runs, after which processes of detectors are ended if they are to be new; the next run begins others."""
    yield from run_ids
    for entry in entries:
        if new and is_isolated(entry.make):
            entry.make.close()


def _elsewhere(
    here: Path,
    path: Path,
    runs: pd.DataFrame,
    frame: Baseline,
    detectors: Sequence[tuple[AnyDetector, str]],
    limits: "Limits | None",
    isolate: bool,
    expected: int,
    share: float,
    *settings: Any,
) -> Any:
    """`replay_runs` in another process, which opens the files and makes the detectors for itself, in the same folder.

    expected, share: as `Isolated.expect` takes them.
    """
    with contextlib.chdir(here), ExitStack() as stack:
        entries = [Entry(detector, name, frame, stack, limits, isolate) for detector, name in detectors]
        for entry in entries:
            if is_isolated(entry.make):
                entry.make.expect(expected, share)
        return replay_runs(DataSet(path, {}, runs), list(runs["run_id"]), entries, *settings)
