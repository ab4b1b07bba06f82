"""Functions that score detectors, put them side by side, and audit what they are scored on."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trainwreck.evaluation.constants import DEFAULT_PROFILE, DEFAULT_TRACK, LOG_EVERY
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import Facts, Results

if TYPE_CHECKING:
    import pandas as pd

    from trainwreck.evaluation.audits.leakage import Audit
    from trainwreck.evaluation.dataset.dataset import DataSet as AnyDataSet
    from trainwreck.evaluation.detectors.base import Detector
    from trainwreck.evaluation.leaderboard.run import Leaderboard, Progress
    from trainwreck.evaluation.leaderboard.transfer.transfer import Transfer
    from trainwreck.evaluation.logs.real_runs.board import RealBoard
    from trainwreck.evaluation.replay.sandbox.limits import Limits
    from trainwreck.evaluation.scoring.scorecard import Scorecard

    Data = AnyDataSet | str | Path
    AnyDetector = str | Detector | type[Detector]


def compare(
    detector: "AnyDetector | Scorecard",
    others: "AnyDetector | Scorecard | Sequence[AnyDetector] | Sequence[Scorecard]",
    data: "Data | None" = None,
    *,
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    track: str = DEFAULT_TRACK,
    workers: int = 1,
    limits: "Limits | None" = None,
) -> "pd.DataFrame":
    """A detector beside one or several by paired tests: how far it is ahead in in-time recall, and whether by chance.

    One row a profile and other, best first. For each budget: `recall_0.05` of the other, `ahead_0.05`, and `p_0.05` of
    a permutation test over scenarios, studentised, with Holm's correction for the others of the profile.

    Detectors are scored on `data`, under `profiles`, on `track`. Scorecards, as in `compare(card, other)`, are taken as
    they are, without data; they have to be of the same runs, profile and track.
    """
    import pandas as pd

    from trainwreck.evaluation.leaderboard.ranking import beside
    from trainwreck.evaluation.leaderboard.run import score_all
    from trainwreck.evaluation.scoring.scorecard import Scorecard

    chosen: list[Any] = [detector, *(others if isinstance(others, list | tuple) else [others])]
    if len(chosen) == 1:
        raise InputError("others: none is not allowed; allowed: one detector or more")
    given = [one for one in chosen if isinstance(one, Scorecard)]
    if given:
        _check_comparable(chosen, data)
        cards = given
    elif data is None:
        raise InputError("data: missing; allowed: a data set for detectors, or two scorecards without one")
    else:
        cards = score_all(
            data, chosen, profiles=profiles, track=track, workers=workers, limits=limits, twins_apart=True
        )
    names = [card.detector for card in cards[: len(chosen)]]
    each = names if given else chosen  # two detectors of one name have names with numbers
    for one, name in zip(each, names, strict=True):
        if each.count(one) > 1:
            raise InputError(f"others: {name!r} is named twice; allowed: each detector once")
    return pd.DataFrame(beside(cards, names[0]))


def _check_comparable(cards: Sequence[Any], data: object) -> None:
    """InputError where not all are scorecards, or not of one data set, profile and track, so that nothing is paired."""
    from trainwreck.evaluation.scoring.scorecard import Scorecard

    if data is not None:
        raise InputError("data: not allowed beside scorecards, which are of one; allowed: detectors, or no data")
    for card in cards:
        if not isinstance(card, Scorecard):
            raise InputError(f"others: {card!r} is not allowed beside a scorecard; allowed: scorecards alone")
        for what in ("profile", "track"):
            if getattr(card, what) != getattr(cards[0], what):
                both = f"{getattr(cards[0], what)!r} and {getattr(card, what)!r}"
                raise InputError(f"others: {what} {both} are not allowed side by side; allowed: one {what}")
        if {one.run_id for one in card.alarms} != {one.run_id for one in cards[0].alarms}:
            raise InputError("others: scorecards of different runs are not allowed; allowed: of one data set")


@overload
def leaderboard(
    dataset: "Data",
    detectors: "Sequence[AnyDetector] | None" = None,
    profiles: Sequence[str] = (),
    *,
    labels: None = None,
    extra: "Sequence[AnyDetector]" = (),
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    workers: int = 1,
    limits: "Limits | None" = None,
    progress: "Progress | None" = None,
) -> "Leaderboard": ...
@overload
def leaderboard(
    dataset: "Data",
    detectors: "Sequence[AnyDetector] | None" = None,
    profiles: Sequence[str] = (),
    *,
    labels: str | Path,
    extra: "Sequence[AnyDetector]" = (),
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    workers: int = 1,
    limits: "Limits | None" = None,
    progress: "Progress | None" = None,
) -> "RealBoard": ...
def leaderboard(
    dataset: "Data",
    detectors: Sequence[Any] | None = None,
    profiles: Sequence[str] = (),
    *,
    labels: str | Path | None = None,
    extra: Sequence[Any] = (),
    track: str = DEFAULT_TRACK,
    k: int = LOG_EVERY,
    workers: int = 1,
    limits: "Limits | None" = None,
    progress: "Progress | None" = None,
) -> "Leaderboard | RealBoard":
    """Detectors side by side, by default every built-in one, with the oracles on a data set by experiment.

    profiles: by default `full` and `common`, of a release of logs `common`. detectors: these alone. extra: beside all
    others, as the command's --detector. labels: of imported runs, which people gave (docs/logs.md): a `RealBoard` then,
    of the logs as they are, without profiles, track and k.
    """
    if labels is None:
        from trainwreck.evaluation.leaderboard.run import leaderboard as board

        return board(
            dataset, detectors, profiles, extra=extra, track=track, k=k, workers=workers, limits=limits,
            progress=progress,
        )  # fmt: skip
    from trainwreck.evaluation.detectors.registry import builtin_detectors
    from trainwreck.evaluation.logs.real_runs.board import real_board

    defaults = {"profiles": (), "track": DEFAULT_TRACK, "k": LOG_EVERY}
    for name, value in {"profiles": tuple(profiles), "track": track, "k": k}.items():
        if value != defaults[name]:
            raise InputError(f"{name}: not allowed beside labels, which are of logs as they are; allowed: one of them")
    if detectors is not None and extra:
        raise InputError("extra: not allowed beside detectors; allowed: one of them")
    chosen = [*builtin_detectors(), *extra] if detectors is None and extra else detectors
    return real_board(dataset, labels, chosen, workers=workers, limits=limits, tick=progress)


def transfer(
    board: str | Path, real: str | Path, *, profile: str | None = None, at: str = "5%", lenient: bool = False
) -> "Transfer":
    """Correlate the order of detectors on two boards that `trainwreck leaderboard --out` wrote, folders or tables.

    profile: of the first, where it has several. at: "5%", "1%" or "default". lenient: by the lenient recall of the
    second, a board of real runs. Spearman and Kendall have intervals, and ceilings by split halves of the clusters.
    `stopped` has the share of the second board's healthy runs that each detector stops at the first one's threshold.
    """
    from trainwreck.evaluation.leaderboard.transfer.transfer import transfer as correlate

    return correlate(board, real, profile=profile, at=at, lenient=lenient)


def rescore(data: "Data", *paths: str | Path) -> "list[Scorecard]":
    """Check stored alarms and score them again: files, folders of them, or submissions. No telemetry is read."""
    from trainwreck.evaluation.dataset.dataset import load_labels
    from trainwreck.evaluation.leaderboard.rescore import rescore as again
    from trainwreck.evaluation.leaderboard.submission import stored_in

    return Results(again(load_labels(data), stored_in([Path(path) for path in paths])))


def submit(
    detector: str,
    data: "Data",
    *,
    name: str,
    version: str,
    code: str,
    licence: str,
    contact: str,
    causal: bool,
    profiles: Sequence[str] = (),
    track: str = DEFAULT_TRACK,
    out: str | Path = Path("results/leaderboard"),
    limits: "Limits | None" = None,
) -> Path:
    """Score a detector and write its submission, OUT/NAME: the facts, and the alarms to score it from.

    detector: by name, since it gets one row at a time in a process of its own. name: of the entry: a-z, 0-9, - and _.
    version: of the detector. code: address of its source. causal: whether no output uses a later row.
    profiles: by default `full` and `common`.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.leaderboard.submission import Facts, row_by_row, write_submission

    facts = Facts(name, version, code, licence, contact, causal)
    facts.check()
    dataset = load(data)
    return write_submission(Path(out), facts, dataset, row_by_row(dataset, detector, profiles, track, limits))


def confirm(
    submission: str | Path,
    detector: str,
    data: "Data",
    private: "Sequence[Data]",
    *,
    limits: "Limits | None" = None,
) -> dict[str, Any]:
    """Run the code of a submission again: whether its alarms come out again on `data`, and its score on private seeds.

    submission: the folder. detector: its code, under the name that it was submitted by. data: that of the claim.
    private: data sets whose runs its author has not seen. Returns the record that `leaderboard --confirmed` reads.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.leaderboard.confirmation import confirm as run_again

    return Facts(run_again(Path(submission), detector, load(data), [load(one) for one in private], limits))


def audit(data: "Data") -> "Audit":
    """Whether anything that a detector sees before a failure tells that the run will fail; `.leaks` says."""
    from trainwreck.evaluation.audits.leakage import audit as examine
    from trainwreck.evaluation.dataset.dataset import load

    return examine(load(data))


def equivalence(*data: "Data", profiles: Sequence[str] | None = None) -> dict[str, Any]:
    """Which causes no signal of a profile tells apart, and which it does not show at all. profiles: all by default.

    Several data sets are taken as one. A cause needs failing runs of 8 seeds, on bases with 8 healthy runs.
    """
    from trainwreck.evaluation.audits.confusable.equivalence import equivalence as measure
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.replay.profiles import PROFILES

    return Facts(measure([load(one) for one in data], tuple(PROFILES) if profiles is None else profiles))


def learn(data: "Data", out: str | Path = Path("learned.npz"), logs: Sequence["Data"] = ()) -> Path:
    """Train the detector `learned` on the train split of a data set and write its weights.

    logs: further data sets for the trees that judge public logs.
    """
    from dataclasses import replace

    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.learned.model import write_model
    from trainwreck.evaluation.learning.logs import learn_logs
    from trainwreck.evaluation.learning.training import learn as train

    if Path(out).suffix != ".npz":
        raise InputError(f"out: {str(out)!r} is not allowed; allowed: a file that ends in .npz")
    datasets = [load(one) for one in (data, *logs)]
    write_model(Path(out), replace(train(datasets[0]), logs=learn_logs(datasets)))
    return Path(out)
