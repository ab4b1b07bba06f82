"""Functions that make data sets, label them, compare them and write them for others."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainwreck.evaluation.dataset.sample import folder_of
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.short_forms import Facts

if TYPE_CHECKING:
    from trainwreck.dataset import DataSet
    from trainwreck.evaluation.dataset.dataset import DataSet as AnyDataSet
    from trainwreck.evaluation.dataset.diff import Comparison, Differences
    from trainwreck.evaluation.labels.stability import Stability
    from trainwreck.evaluation.leaderboard.run import Leaderboard
    from trainwreck.scenarios.datasets.engines.engine import Settings

    Data = AnyDataSet | str | Path


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
    products: str = "fp32",
    part: str | None = None,
) -> "DataSet":
    """Train the runs of a plan as a labelled data set; goes on where an earlier call stopped.

    plan: demo, sample, rescue, standard, full, private (with its salt), wild, coverage, a plan.json, or a sweep such as
    "scenario=high_lr", "seed=range(8)", "optimizer.lr=0.02". workers: processes of this machine, by default one a
    core, or one for a GPU. engine: another place to train, as `scenarios.datasets.engines.engine`
    makes it. minutes: begin no bundle after so long; UnfinishedError then. device: cpu by default. impl: kernels, by
    default what suits the device. text: of a sweep, a file whose bytes the runs are trained on. runs, mix: of the plan
    `wild`, as its options. products: "bf16" for those of runs that have float32. part: "2/8" for the second of eight
    parts, which `release` joins.
    """
    from trainwreck.dataset import load
    from trainwreck.scenarios.datasets.engines import Local
    from trainwreck.scenarios.datasets.generate import generate as train
    from trainwreck.scenarios.datasets.plans import resolve
    from trainwreck.scenarios.training.backend import backend

    if engine is not None and workers is not None:
        raise InputError(f"workers: {workers} is not allowed beside engine; allowed: one of them")
    name, specs = resolve(plan, salt, text, runs, mix, products, part)
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
    stopped; with `visible` or a source nothing is trained. workers: by default one a core, fewer where memory is short.
    source: another copy of the data set, whose points of no return are taken over.
    """
    from trainwreck.dataset import load

    folder = folder_of(data)
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

        measure(folder, splits=splits, workers=workers, minutes=minutes)
    return load(folder)


def stability(data: "Data") -> "Stability":
    """Measure how certain the visible steps are: false positives, and how far they move with other healthy runs."""
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.labels.stability import stability as measure

    return measure(load(data))


def demo(out: str | Path = Path("demo"), *, workers: int | None = None) -> "Leaderboard":
    """Generate, label, score and report a small data set, minutes on two cores; its leaderboard.

    Scored are the detectors that need no other library. out: the data set, with report.html in it.
    """
    from trainwreck.evaluation.detectors.registry import without_libraries
    from trainwreck.evaluation.leaderboard.run import leaderboard
    from trainwreck.evaluation.pages.report import write_report

    data = generate("demo", out=out, workers=workers)
    with without_libraries():
        board = leaderboard(data)
        write_report(data.path, data.path / "report.html")
    return board


def reproduce(data: "Data", run_id: str) -> "Comparison":
    """Train a run of a data set again and compare it bitwise; `.identical` and `.text()` tell."""
    from trainwreck.scenarios.datasets.reproduce import reproduce as again

    return again(folder_of(data), run_id)


def diff(one: "Data", other: "Data") -> "Differences":
    """Every run that two data sets have, compared: first step and signal that differ, and labels that do.

    A list of comparisons; `.summary.verdict` is a line on all of them, bitwise and by tolerance.
    """
    from trainwreck.evaluation.dataset.dataset import load
    from trainwreck.evaluation.dataset.diff import Differences, compare_data_sets, summarise

    first, second = load(one), load(other)
    found = list(compare_data_sets(first, second))
    return Differences(found, summarise(first, second, found))


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
    parts: Sequence["Data"] = (),
    private: bool = False,
    published: str | None = None,
    url: str | None = None,
    profiles: Sequence[str] = (),
    logs: bool = False,
    workers: int = 1,
) -> "DataSet":
    """Write a data set in the form for publication: Parquet by split, card, Croissant metadata, checksums.

    parts: further parts of its plan, which become one release with it. private: only the private runs, with those to
    calibrate on. published: the day, as 2026-01-31. url: the data's page.
    profiles: of the table of baselines; `full` where none is given, of logs `common`. logs: only loss, validation loss,
    gradient norm and learning rate.
    """
    from trainwreck.dataset import load
    from trainwreck.evaluation.release import release as write

    made = write(
        folder_of(data),
        Path(out),
        parts=[folder_of(part) for part in parts],
        private=private,
        published=published,
        url=url,
        profiles=tuple(profiles),
        logs=logs,
        workers=workers,
    )
    return load(made)
