"""What the commands do, as functions: each calls what its command calls, without output to the terminal.

Data sets are given open (`load`), as folders, or as "sample". Bad input is an InputError.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from trainwreck.evaluation.constants import (
    DEFAULT_PROFILE,
    DEFAULT_TRACK,
    LOG_COLUMNS,
    LOG_EVERY,
    LOG_LINE_KB,
    LOG_MB,
)
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import Facts, Names, Results

if TYPE_CHECKING:
    import pandas as pd

    from trainwreck.dataset import DataSet
    from trainwreck.evaluation.audits.leakage import Audit
    from trainwreck.evaluation.dataset.dataset import DataSet as AnyDataSet
    from trainwreck.evaluation.dataset.diff import Comparison, Differences
    from trainwreck.evaluation.detectors.base import Detector
    from trainwreck.evaluation.diagnosis.diagnosis import Diagnosis
    from trainwreck.evaluation.labels.stability import Stability
    from trainwreck.evaluation.leaderboard.run import Leaderboard, Progress
    from trainwreck.evaluation.leaderboard.transfer import Transfer
    from trainwreck.evaluation.logs.real_runs.board import RealBoard
    from trainwreck.evaluation.pages.gallery.build import Gallery
    from trainwreck.evaluation.replay.sandbox.limits import Limits
    from trainwreck.evaluation.scoring.scorecard import Scorecard
    from trainwreck.scenarios.bench import Table
    from trainwreck.scenarios.datasets.engines.engine import Settings
    from trainwreck.scenarios.preflight import Finding, Preflight
    from trainwreck.scenarios.proof.verify import Proof
    from trainwreck.scenarios.spec.listings import Rows

    Data = AnyDataSet | str | Path
    AnyDetector = str | Detector | type[Detector]

PROOFS = Path("results/runs/verify")  # where `verify` keeps its runs by default


def catalogue() -> "Rows":
    """One dict a scenario, as `trainwreck list --json`: id, family, kind, severities, sizes, sources, proven, title.

    `.to_frame()` is a table of them.
    """
    from trainwreck.scenarios.spec.listings import Rows
    from trainwreck.scenarios.spec.pages import summary

    return Rows(summary())


def show(id: str) -> dict[str, Any]:
    """The page of a scenario: its facts, knobs by severity, and the sections of its text. id: or `mine.py:Mine`.

    Its base in words, the settings in which it is not the default of its size, and the lines of the training program
    that the fault changes are `base`, `settings` and `lines`.
    """
    from trainwreck.scenarios.spec.listings import Page
    from trainwreck.scenarios.views.page import page

    return Page(page(id))


def detectors() -> "dict[str, type[Detector]]":
    """The built-in detectors that can run here, by name."""
    from trainwreck.evaluation.detectors.registry import builtin_detectors

    return Names(builtin_detectors())


def verify(
    *ids: str,
    out: str | Path = PROOFS,
    seeds: int | None = None,
    quick: bool = False,
    severity: str | None = None,
    size: str | None = None,
    overrides: Sequence[str] = (),
    workers: int | None = None,
    text: str | Path | None = None,
) -> "list[Proof]":
    """Train faulty, twin and cured runs of scenarios on many seeds and judge them; one proof a severity.

    out: keeps the runs; a second call only judges. seeds: 8 by default, which a proof needs; with `quick` one, at the
    default severity: `Proof.holds` says what it says, and nothing is proven. text: a file whose bytes the runs are
    trained on.
    """
    from trainwreck.scenarios.config.sizes import Size
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.proof.verify import FEWEST_SEEDS
    from trainwreck.scenarios.proof.verify import verify as prove
    from trainwreck.scenarios.spec.overrides import on_text
    from trainwreck.scenarios.spec.registry import scenario
    from trainwreck.scenarios.spec.scenario import Severity
    from trainwreck.scenarios.training.environment import cores

    if not ids:
        raise InputError("ids: none is not allowed; allowed: one scenario or more")
    if quick and seeds is not None:
        raise InputError(f"seeds: {seeds} is not allowed with quick; allowed: one of them")
    found = prove(
        [scenario(id).id for id in ids],
        Path(out),
        seeds=1 if quick else FEWEST_SEEDS if seeds is None else seeds,
        severity=member(Severity, "severity", severity),
        size=member(Size, "size", size),
        one_severity=quick,
        overrides=[*overrides, *on_text(text)],
        workers=workers or cores(),
    )
    return Results(found)


def generate(
    *plan: str,
    out: str | Path,
    salt: str | None = None,
    workers: int | None = None,
    engine: "Settings | None" = None,
    minutes: float | None = None,
    device: str | None = None,
    impl: str | None = None,
    text: str | Path | None = None,
    runs: int | None = None,
    mix: str | None = None,
) -> "DataSet":
    """Train the runs of a plan as a labelled data set; goes on where an earlier call stopped.

    plan: demo, sample, standard, full, private (with its salt), wild, a plan.json, or a sweep such as
    "scenario=high_lr", "seed=range(8)", "optimizer.lr=0.02". workers: processes of this machine, by default one a
    core, or one for a GPU. engine: another place to train, as `scenarios.datasets.engines.engine`
    makes it. minutes: begin no bundle after so long; UnfinishedError then. device: cpu by default. impl: kernels, by
    default what suits the device. text: of a sweep, a file whose bytes the runs are trained on. runs, mix: of the plan
    `wild`, as its options.
    """
    from trainwreck.dataset import load
    from trainwreck.scenarios.datasets.engines import Local
    from trainwreck.scenarios.datasets.generate import generate as train
    from trainwreck.scenarios.datasets.plans import resolve
    from trainwreck.scenarios.training.backend import backend

    if engine is not None and workers is not None:
        raise InputError(f"workers: {workers} is not allowed beside engine; allowed: one of them")
    name, specs = resolve(plan, salt, text, runs, mix)
    where = backend(device, impl)
    local = Local(1 if workers is None and where.device != "cpu" else workers)
    return load(train(specs, Path(out), engine=engine or local, name=name, backend=where, minutes=minutes))


def label(
    data: "Data",
    *,
    splits: Sequence[str] = (),
    visible: bool = False,
    source: str | Path | None = None,
    workers: int | None = None,
    minutes: float | None = None,
) -> "DataSet":
    """Measure when each failure becomes visible, and until when its cure saves the run; the data set, labelled.

    The second trains branches, of runs of these splits only where some are named, and goes on where an earlier call
    stopped; with `visible` or a source nothing is trained. source: another copy of the data set, whose points of no
    return are taken over.
    """
    from trainwreck.dataset import load

    folder = _folder(data)
    if splits and (visible or source is not None):
        raise InputError("splits: not allowed beside visible and source, which train nothing; allowed: one of them")
    if source is not None:
        from trainwreck.evaluation.labels.transfer_labels import adopt

        adopt(folder, Path(source))
    if visible or source is not None:
        from trainwreck.evaluation.labels.labelling import relabel
        from trainwreck.scenarios.datasets.signatures import with_signatures

        relabel(folder, with_signatures)
    else:
        from trainwreck.scenarios.proof.no_return_dataset import measure
        from trainwreck.scenarios.training.environment import cores

        measure(folder, splits=splits, workers=workers or cores(), minutes=minutes)
    return load(folder)


def stability(data: "Data") -> "Stability":
    """Measure how certain the visible steps are: false positives, and how far they move with other healthy runs."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.labels.stability import stability as measure

    return measure(load(data))


def demo(out: str | Path = Path("demo"), *, workers: int | None = None) -> "Leaderboard":
    """Generate, label, score and report a small data set, minutes on two cores; its leaderboard, profile `full`.

    Scored are the detectors that need no other library. out: the data set, with report.html in it.
    """
    from trainwreck.evaluation.detectors.registry import without_libraries
    from trainwreck.evaluation.leaderboard.run import leaderboard

    data = generate("demo", out=out, workers=workers)
    with without_libraries():
        board = leaderboard(data)
        report(data)
    return board


def reproduce(data: "Data", run_id: str) -> "Comparison":
    """Train a run of a data set again and compare it bitwise; `.identical` and `.text()` tell."""
    from trainwreck.scenarios.datasets.reproduce import reproduce as again

    return again(_folder(data), run_id)


def diff(one: "Data", other: "Data") -> "Differences":
    """Every run that two data sets have, compared: first step and signal that differ, and labels that do.

    A list of comparisons; `.summary.verdict` is a line on all of them, bitwise and by tolerance.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.dataset.diff import Differences, compare_data_sets, summarise

    first, second = load(one), load(other)
    found = list(compare_data_sets(first, second))
    return Differences(found, summarise(first, second, found))


def import_logs(
    *logs: str | Path,
    out: str | Path,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    labels: str | Path | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    log_mb: float = LOG_MB,
    log_columns: int = LOG_COLUMNS,
    log_line_kb: float = LOG_LINE_KB,
) -> "DataSet":
    """Training logs as a data set in a new folder, so that detectors can be run over them.

    format: csv, jsonl, tensorboard, trainer_state, lightning, mlflow, wandb, neptune or text; by default what a log
    looks like. mapping: column to signal, where names differ (docs/logs.md). labels: CSV with run, status, step,
    cause, cluster. blank: nan or missing, what blank cells stand for; by default a rule. every: steps from one row to
    the next, where there is no step. pattern: regular expression of a text log's lines, with groups step and loss.
    log_mb, log_columns, log_line_kb: MiB of memory, columns, and KiB of a line that a log may take; InputError beyond.
    """
    from trainwreck.dataset import load
    from trainwreck.evaluation.logs.imported import import_logs as read
    from trainwreck.evaluation.logs.limits import LogLimits
    from trainwreck.evaluation.logs.readers import parse_mapping

    parsed = parse_mapping([f"{column}={signal}" for column, signal in (mapping or {}).items()])
    file = None if labels is None else Path(labels)
    paths = [Path(log) for log in logs]
    read(
        paths,
        Path(out),
        format=format,
        mapping=parsed,
        labels=file,
        blank=blank,
        every=every,
        pattern=pattern,
        limits=LogLimits(log_mb, log_columns, log_line_kb),
    )
    return load(Path(out))


def diagnose(
    log: str | Path,
    run: str | None = None,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    blank: str | None = None,
    every: int | None = None,
    pattern: str | None = None,
    profile: str = DEFAULT_PROFILE,
    log_mb: float = LOG_MB,
    log_columns: int = LOG_COLUMNS,
    log_line_kb: float = LOG_LINE_KB,
) -> "Diagnosis":
    """What is wrong with a run, since when and why; or that nothing is that its log could show.

    log: what `import_logs` reads, or the folder of a data set; run: which of its runs, where it has several. format,
    mapping, blank, every, pattern, log_mb, log_columns, log_line_kb: as for `import_logs`. profile: as if only
    that had been logged.
    """
    from trainwreck.evaluation.diagnosis.diagnosis import diagnose as ask
    from trainwreck.evaluation.diagnosis.subjects import only, subjects
    from trainwreck.evaluation.logs.limits import LogLimits
    from trainwreck.evaluation.logs.readers import parse_mapping
    from trainwreck.scenarios.spec.pages import page

    parsed = parse_mapping([f"{column}={signal}" for column, signal in (mapping or {}).items()])
    limits = LogLimits(log_mb, log_columns, log_line_kb)
    runs = subjects(
        Path(log), run, format=format, mapping=parsed, blank=blank, every=every, pattern=pattern, limits=limits
    )
    name, trace = only(runs, Path(log))
    return ask(trace, name, page, profile)


def export(data: "Data", to: str, out: str | Path, run_ids: Sequence[str] = ()) -> dict[str, str]:
    """Write runs, all by default, in another tool's format; run id to its place in `out`, which is new or empty.

    to: tensorboard, wandb, mlflow, trackio, timeeval or logged.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.logs.exporters import export as write

    return Facts(write(load(data), to, Path(out), run_ids))


def release(
    data: "Data",
    out: str | Path,
    *,
    private: bool = False,
    published: str | None = None,
    url: str | None = None,
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    workers: int = 1,
) -> "DataSet":
    """Write a data set in the form for publication: Parquet by split, card, Croissant metadata, checksums.

    private: only the private runs, with those to calibrate on. published: the day, as 2026-01-31. url: the data's page.
    profiles: of the table of baselines.
    """
    from trainwreck.dataset import load
    from trainwreck.evaluation.release import release as write

    made = write(
        _folder(data),
        Path(out),
        private=private,
        published=published,
        url=url,
        profiles=tuple(profiles),
        workers=workers,
    )
    return load(made)


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
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
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
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
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
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
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

    detectors: these alone. extra: beside all others, as the command's --detector. labels: of imported runs, which
    people gave (docs/logs.md): a `RealBoard` then, of the logs as they are, without profiles, track and k.
    """
    if labels is None:
        from trainwreck.evaluation.leaderboard.run import leaderboard as board

        return board(
            dataset, detectors, profiles, extra=extra, track=track, k=k, workers=workers, limits=limits,
            progress=progress,
        )  # fmt: skip
    from trainwreck.evaluation.detectors.registry import builtin_detectors
    from trainwreck.evaluation.logs.real_runs.board import real_board

    defaults = {"profiles": (DEFAULT_PROFILE,), "track": DEFAULT_TRACK, "k": LOG_EVERY}
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
    """
    from trainwreck.evaluation.leaderboard.transfer import transfer as correlate

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
    profiles: Sequence[str] = (DEFAULT_PROFILE,),
    track: str = DEFAULT_TRACK,
    out: str | Path = Path("results/leaderboard"),
    limits: "Limits | None" = None,
) -> Path:
    """Score a detector and write its submission, OUT/NAME: the facts, and the alarms to score it from.

    detector: by name, since it gets one row at a time in a process of its own. name: of the entry: a-z, 0-9, - and _.
    version: of the detector. code: address of its source. causal: whether no output uses a later row.
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


def report(data: "Data", out: str | Path | None = None, *, workers: int = 1) -> Path:
    """Write one HTML file: every scenario's picture, the labels, the leaderboard.

    out: DIR/report.html by default, sample.html for the sample. workers: processes for the pictures.
    """
    from trainwreck.evaluation.dataset.sample import SAMPLE, is_sample
    from trainwreck.evaluation.pages.report import write_report

    folder = _folder(data)
    page = Path(f"{SAMPLE}.html") if is_sample(folder) else folder / "report.html"
    return write_report(folder, page if out is None else Path(out), workers=workers)


def gallery(
    *data: "Data",
    out: str | Path = Path("gallery.html"),
    detectors: Sequence[str] = (),
    alarms: Sequence[str | Path] = (),
    workers: int = 1,
) -> "Gallery":
    """Write one page with every scenario's curves, text and alarms; `.path`, `.scenarios`, `.runs` and `.bytes` tell.

    detectors: whose alarms are marked, in place of the usual eight. alarms: stored ones, instead of a replay.
    """
    from trainwreck.evaluation.pages.gallery import write_gallery
    from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
    from trainwreck.evaluation.pages.gallery.marks import DETECTORS
    from trainwreck.scenarios.views.symptoms import catalogue_facts

    if detectors and alarms:
        raise InputError("detectors: not allowed beside alarms, which replay nothing; allowed: one of them")
    return write_gallery(
        [_folder(one) for one in data],
        Path(out),
        Catalogue(**catalogue_facts()),
        detectors=detectors or DETECTORS,
        alarms=[Path(path) for path in alarms],
        workers=workers,
    )


def quiz(
    data: "Data" = "sample",
    out: str | Path = Path("quiz.html"),
    *,
    runs: int = 12,
    seed: int = 7,
    profile: str = DEFAULT_PROFILE,
    families: Sequence[str] = (),
    detectors: Sequence[str] = (),
    beginner: bool = False,
    sealed: bool = False,
) -> Path:
    """Write a page on which runs are revealed step by step, and the player says stop and names the cause.

    families: failing runs of these only. detectors: beside the player, in place of the built-in ones. beginner: four
    causes to choose from at each stop. sealed: keep the answers in OUT.key.json beside the page.
    """
    from trainwreck.evaluation.dataset.dataset import load, telemetry_digest
    from trainwreck.evaluation.pages.quiz.key import write_key
    from trainwreck.evaluation.pages.quiz.page import write_page
    from trainwreck.evaluation.pages.quiz.quiz import make
    from trainwreck.evaluation.pages.quiz.recipe import Recipe
    from trainwreck.evaluation.replay.unlabelled import refuse_imported
    from trainwreck.scenarios.spec.pages import causes

    dataset, page = load(data), Path(out)
    refuse_imported(dataset, "asked about")
    recipe = Recipe(telemetry_digest(dataset), seed, runs, profile, tuple(sorted(set(families))))
    families_of, titles = causes(dataset, whole_catalogue=True)
    made = make(dataset, recipe, families_of, list(detectors) or None)
    if sealed:
        write_key(page.with_suffix(".key.json"), made)
    write_page(page, dataset, made, titles, sealed=sealed, beginner=beginner)
    return page


def reproducer(
    id: str, out: str | Path | None = None, *, seed: int = 0, severity: str | None = None, force: bool = False
) -> Path:
    """Write a proven scenario as one plain PyTorch program, ID.py by default. force: in place of a file."""
    from trainwreck.scenarios.datasets.plans import member
    from trainwreck.scenarios.reproducers.export import write
    from trainwreck.scenarios.spec.scenario import Severity

    level = member(Severity, "severity", severity)
    return write(id, Path(f"{id}.py" if out is None else out), seed=seed, severity=level, force=force)


def preflight(subject: "Preflight | str", names: Sequence[str] = (), *, seed: int = 0) -> "list[Finding]":
    """The checks before a run on a model and a batch; one finding a check, with its verdict and evidence.

    subject: a `Preflight`, or "file.py:function" or "package.module:function" that returns one. names: of checks; all
    by default.
    """
    from trainwreck.scenarios.preflight import from_factory
    from trainwreck.scenarios.preflight import preflight as ask

    return Results(ask(from_factory(subject, seed) if isinstance(subject, str) else subject, names, seed=seed))


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


def learn(data: "Data", out: str | Path = Path("learned.npz")) -> Path:
    """Train the detector `learned` on the train split of a data set and write its weights."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.detectors.learned.model import write_model
    from trainwreck.evaluation.learning.training import learn as train

    if Path(out).suffix != ".npz":
        raise InputError(f"out: {str(out)!r} is not allowed; allowed: a file that ends in .npz")
    write_model(Path(out), train(load(data)))
    return Path(out)


def bench(what: str, *, record: bool = False) -> "Table":
    """Measure speed against named peers, or a claim under results/ again: train, score, ... (`trainwreck bench`).

    record: write the result under results/. The table has `rows`, `text()` and `to_dict()`.
    """
    from trainwreck.evaluation.progress import progress
    from trainwreck.scenarios.bench import measure

    with progress(f"bench {what}", quiet=True) as tick:
        return measure(what, tick, record=record)


def doctor() -> dict[str, Any]:
    """Versions, processors and accelerators of this machine, and what each makes possible."""
    from trainwreck.environment import examine

    return Facts(examine())


def _folder(data: "Data") -> Path:
    """Where a data set is."""
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.dataset.sample import named

    return data.path if isinstance(data, DataSet) else named(Path(data))
