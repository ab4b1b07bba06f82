"""The runs and the harness: every run of a data set through detectors, and the board of their scores."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from trainwreck.evaluation import short_forms
from trainwreck.evaluation.constants import (
    BOARD_PROFILES,
    DEFAULT_PROFILE,
    DEFAULT_SEEDS,
    DEFAULT_TRACK,
    HEADLINE_BUDGET,
    LOG_EVERY,
    ONE_LINERS,
)
from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.dataset.schema import JOINT
from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.detectors.registry import AllowedCauses, builtin_detectors
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.leaderboard.entries import AnyDetector, Entry, entry_name, shortcuts_of
from trainwreck.evaluation.leaderboard.rounds import by_workers, replay_runs, rounds_of, with_new_processes
from trainwreck.evaluation.replay.profiles import ALL_PROFILES
from trainwreck.evaluation.replay.replay import Alarms, distinct, is_isolated, replay_order
from trainwreck.evaluation.scoring.operating_points import Recall
from trainwreck.evaluation.scoring.reference import baseline
from trainwreck.evaluation.scoring.run_labels import scored
from trainwreck.evaluation.scoring.scorecard import Scorecard, measure, plain

if TYPE_CHECKING:
    from trainwreck.evaluation.replay.sandbox.limits import Limits

__all__ = ["Leaderboard", "Recall", "Scorecard", "board_cards", "leaderboard", "score", "score_all"]

BLIND = "blind"
TRACKS = (BLIND, "informed")
SHOWN = ("profile", "rank", "detector", f"recall_{HEADLINE_BUDGET}", f"stopped_{HEADLINE_BUDGET}", "skill", "top1")
Progress = Callable[[int, int, str], None]
"""Called as progress(runs done, runs in all, run_id)."""
Finished = Callable[[Scorecard], object]
"""Called with each scorecard as soon as its detector has seen every run."""


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Scorecards side by side. Use `leaderboard`.

    cards: by profile in the order requested, then by detector. easy: by profile the scenarios that every one-line
    detector solves; the table has the headline without them too.
    """

    cards: tuple[Scorecard, ...]
    hidden: tuple[str, ...] = ()  # detectors that the easy scenarios are found by, and that were not requested

    @cached_property
    def _table(self) -> pd.DataFrame:
        from trainwreck.evaluation.leaderboard.ranking import table

        return table(self.cards, hidden=self.hidden)

    @property
    def easy(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self._table.attrs["easy"]
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a detector and profile, best first within a profile; see `ranking.table` for columns."""
        return self._table.copy()

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, NaN as None: `rows` as in `to_frame`, and `easy`."""
        return {"rows": [plain(row) for row in self._table.to_dict("records")], "easy": self.easy}

    def __repr__(self) -> str:
        return self._table[list(SHOWN)].to_string(index=False, max_rows=20, float_format="{:.3f}".format)

    def _repr_html_(self) -> str:
        return short_forms.table(self._table[list(SHOWN)])


def score(
    detector: str | Detector | type[Detector],
    dataset: DataSet | str | Path,
    *,
    profile: str = DEFAULT_PROFILE,
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    limits: "Limits | None" = None,
    isolate: bool = False,
    seeds: int = DEFAULT_SEEDS,
    progress: Progress | None = None,
) -> Scorecard:
    """Replay every run of a data set through a detector and measure it.

    detector: a name (`open_detector`, or an oracle's), a class, or an object that is copied for
    each run. dataset: open, a folder, or "sample". track: "blind", or "informed" with the declared configuration as
    context. limits: of detectors that run in a process of their own: of files, plug-ins and commands, and with
    `isolate` the built-in ones too. seeds: as in `score_all`. A crash of the detector ends one run's replay and is
    counted, never raised.
    Raises InputError for an unknown detector, profile or track, or for labels that contradict themselves.
    """
    return score_all(
        dataset,
        [detector],
        profiles=[profile],
        track=track,
        k=k,
        limits=limits,
        isolate=isolate,
        seeds=seeds,
        progress=progress,
    )[0]


def score_all(
    dataset: DataSet | str | Path,
    detectors: Sequence[str | Detector | type[Detector]],
    *,
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    workers: int = 1,
    limits: "Limits | None" = None,
    isolate: bool = False,
    seeds: int = DEFAULT_SEEDS,
    twins_apart: bool = False,
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> list[Scorecard]:
    """`score` for several detectors and profiles, by profile, then detector.

    Detectors of the harness's process share one reading of the traces for each profile; those with a process of their
    own follow one after the other. finished: gets each card as soon as it is there, so that what ends the harness takes
    none of those away; with seeds, at the end.

    workers: processes to replay in; with more than one, detectors are given by name, or can be pickled. seeds: with
    more than one each detector is replayed with `seed` 0, 1, ... and its scorecard, of seed 0, has the scores of all.
    Raises InputError for a detector that takes no seed then. twins_apart: as where detectors are ranked, no process of
    a detector sees two runs of a twin set, which are bitwise the same until one of them fails, or a run twice. Runs are
    shown in an order that is drawn; entries of one name get numbers.
    """
    chosen: Sequence[AnyDetector] = detectors
    if seeds > 1:
        from trainwreck.evaluation.scoring.detector_seeds import Seeded

        chosen = [Seeded(one, seed) for one in detectors for seed in range(seeds)]
    dataset = load(dataset)
    early = finished if seeds == 1 else None
    cards = _score_all(dataset, chosen, profiles, track, k, progress, workers, limits, isolate, twins_apart, early)
    if seeds == 1:
        return cards
    names = distinct([entry_name(one) for one in detectors]) * len(profiles)
    of_seeds = [_of_seeds(name, cards[i * seeds : (i + 1) * seeds]) for i, name in enumerate(names)]
    if finished is not None:
        for card in of_seeds:
            finished(card)
    return of_seeds


def board_cards(
    dataset: DataSet,
    extra: Sequence[str | Detector | type[Detector]] = (),
    profiles: Sequence[str] = (),
    *,
    workers: int = 1,
    limits: "Limits | None" = None,
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> list[Scorecard]:
    """Scorecards of every built-in detector, the oracles, and `extra`; other arguments as in `score_all`.

    profiles: by default those of `board_profiles`. A name in `extra` that is on the board anyway is listed once.
    """
    entries = board_entries(dataset, extra)
    return score_all(
        dataset, entries, profiles=profiles or board_profiles(dataset), workers=workers, limits=limits,
        twins_apart=True, progress=progress, finished=finished,
    )  # fmt: skip


def board_profiles(dataset: DataSet) -> Sequence[str]:
    """The profiles of a board by default: `BOARD_PROFILES`, of a release of logs the one that shows what it has."""
    return BOARD_PROFILES[1:] if dataset.manifest.get("release", {}).get("signals") else BOARD_PROFILES


def board_entries(
    dataset: DataSet, extra: Sequence[str | Detector | type[Detector]] = ()
) -> list[str | Detector | type[Detector]]:
    """The entries of a board by default: every built-in detector, the shortcuts, the oracles; and `extra`.

    The shortcuts are left out where there is nothing to tune them on (`shortcuts.left_out`).
    """
    from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS, tunable
    from trainwreck.evaluation.replay.oracles import ORACLES

    shortcuts = SHORTCUTS if tunable(dataset.runs) else ()
    always: list[str | Detector | type[Detector]] = [*builtin_detectors(), *shortcuts, *ORACLES]
    return [*always, *(detector for detector in extra if detector not in always)]


def leaderboard(
    dataset: DataSet | str | Path,
    detectors: Sequence[str | Detector | type[Detector]] | None = None,
    profiles: Sequence[str] = (),
    *,
    extra: Sequence[str | Detector | type[Detector]] = (),
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    workers: int = 1,
    limits: "Limits | None" = None,
    progress: Progress | None = None,
) -> Leaderboard:
    """Detectors side by side, as `trainwreck leaderboard` has them.

    dataset: open, a folder, or "sample". detectors: these alone; by default every built-in one and the oracles, and
    `extra` beside them, as the command's --detector. profiles: by default those of `board_profiles`.
    workers and limits: as in `score_all`.
    """
    dataset = load(dataset)
    chosen = list(detectors) if detectors is not None else board_entries(dataset, extra)
    if detectors is not None and extra:
        raise InputError("extra: not allowed beside detectors; allowed: one of them")
    for detector in chosen:
        if chosen.count(detector) > 1:
            raise InputError(f"detectors: {entry_name(detector)!r} is named twice; allowed: each name once")
    names = [entry_name(detector) for detector in chosen]
    hidden = [name for name in ONE_LINERS if name not in names]
    entries = [*chosen, *hidden]
    shown = list(profiles or board_profiles(dataset))
    cards = _score_all(dataset, entries, shown, track, k, progress, workers, limits, twins_apart=True)
    return Leaderboard(tuple(cards), tuple(hidden))


def known_causes(dataset: DataSet) -> frozenset[str]:
    """The causes that a detector may name on a data set: its own, and those of the built-in detectors."""
    return _allowed_causes(dataset).every


def _allowed_causes(dataset: DataSet) -> AllowedCauses:
    return AllowedCauses({cause for causes in dataset.runs["cause"] if causes for cause in causes.split(JOINT)})


def _score_all(
    dataset: DataSet,
    detectors: Sequence[AnyDetector],
    profiles: Sequence[str],
    track: str,
    k: int,
    progress: Progress | None,
    workers: int = 1,
    limits: "Limits | None" = None,
    isolate: bool = False,
    twins_apart: bool = False,
    finished: Finished | None = None,
) -> list[Scorecard]:
    """Scorecards by profile, then detector; `finished` gets each as soon as all its runs were replayed."""
    if dataset.imported:
        from trainwreck.evaluation.replay.unlabelled import refuse_imported

        refuse_imported(dataset, "scored")
    if track not in TRACKS:
        raise unknown("track", track, TRACKS)
    for profile in profiles:
        if profile not in ALL_PROFILES:
            raise unknown("profile", profile, ALL_PROFILES)
    frame = baseline(dataset.runs)  # blind policies are tuned on what every signal shows
    frames = {name: frame if name == DEFAULT_PROFILE else baseline(dataset.runs, name) for name in profiles}
    known = _allowed_causes(dataset)
    replayed = dataset.runs[scored(dataset.runs)]
    order = replayed.loc[replay_order(replayed["run_id"], secrets.token_bytes())]
    names = distinct([entry_name(detector) for detector in detectors])
    with ExitStack() as stack:
        # Here, so that a wrong one is reported before any work.
        entries = [
            Entry(detector, name, frame, stack, limits, isolate)
            for detector, name in zip(detectors, names, strict=True)
        ]
        shortcuts = shortcuts_of(dataset, entries, frame, profiles, k)
        settings = (track, k, known, shortcuts)
        rounds = rounds_of(entries, order, profiles, workers, twins_apart)
        found: dict[tuple[str, str], dict[str, Alarms]] = {(p, e.name): {} for p in profiles for e in entries}
        cards: dict[tuple[str, str], Scorecard] = {}
        abouts = {entry.name: entry.about for entry in entries}
        in_plan = replayed["run_id"].tolist()

        def measured(profile: str, name: str) -> None:
            alarms = found.pop((profile, name))
            by_run = {run_id: alarms[run_id] for run_id in in_plan}
            card = cards[profile, name] = measure(name, track, abouts[name], by_run, frames[profile])
            if finished is not None:
                finished(card)

        if workers > 1:
            stack.close()  # each process begins its own
            sent = deepcopy(frame)  # joblib pickles it in a thread, while measuring a card fills caches of the other
            replies = by_workers(dataset, rounds, sent, workers, limits, isolate, settings, len(replayed))
        else:
            for entry in entries:
                if is_isolated(entry.make):
                    entry.make.expect(len(replayed) * len(profiles))
            replies = (
                replay_runs(dataset, [run_id], one.entries, one.profiles, *settings)
                for one in rounds
                for run_id in with_new_processes(one.runs["run_id"], one.entries, twins_apart)
            )
        done, of = 0, sum(len(one.runs) for one in rounds)
        for reply in replies:
            for run_id, alarms in reply.items():
                for key, alarm in alarms.items():
                    found[key][run_id] = alarm
                    if len(found[key]) == len(in_plan):
                        measured(*key)
                done += 1
                if progress is not None:
                    progress(done, of, run_id)
    for key in list(found):  # where no run is scored
        measured(*key)
    return [cards[profile, entry.name] for profile in profiles for entry in entries]


def _of_seeds(name: str, cards: Sequence[Scorecard]) -> Scorecard:
    """One scorecard of those by seed: the first, with the scores of all."""
    seeds = {f"recall_{point}": [card.recall[point].value for card in cards] for point in cards[0].recall}
    seeds |= {"lead": [card.lead.value for card in cards], "skill": [card.headline_skill.value for card in cards]}
    failed = {i: sum(alarms.crashed for alarms in card.alarms) for i, card in enumerate(cards) if i}
    notes = tuple(f"with seed {i} it failed on {count} runs" for i, count in failed.items() if count)
    return replace(cards[0], detector=name, seeds=seeds, notes=cards[0].notes + notes)
