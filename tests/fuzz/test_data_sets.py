"""A copy of the sample with one thing wrong, given to what reads data sets.

The same answer, or one line of InputError: never a traceback, a hang, or another score under edited labels.
"""

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainwreck.evaluation.constants import ONE_LINERS
from trainwreck.evaluation.dataset.dataset import DataSet, load, load_labels
from trainwreck.evaluation.dataset.diff import compare_data_sets, summarise
from trainwreck.evaluation.dataset.sample import sample
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.leaderboard import cache
from trainwreck.evaluation.leaderboard.run import score_all
from trainwreck.evaluation.logs.exporters.formats import export
from trainwreck.evaluation.pages.gallery import build as gallery
from trainwreck.evaluation.pages.gallery.exhibit_facts import Catalogue
from trainwreck.evaluation.pages.report import build as report
from trainwreck.evaluation.release import build as releases

from . import hostile

pytestmark = pytest.mark.fuzz

PATIENCE = 120  # seconds of CPU time for one attempt
ASLEEP = 1200  # and of any time, on a busy machine
DETECTOR = "nonfinite_loss"
JSON = ("manifest.json", "catalogue.json", "plan.json")
LABELS: dict[str, tuple[Any, ...]] = {
    "kind": ("failing", "healthy", "look-alike", "latent", "not shown", "cured", "compound", "imported"),
    "split": ("test", "train", "calibration", "private"),
    "cause": ("", "high_lr", "corrupt_tokens", "no_warmup"),
    "scenario": ("", "high_lr", "corrupt_tokens", "benign_single_spike"),
    "severity": ("", "subtle", "clear", "severe"),
    "outcome": ("recovered", "damaged", "non_finite"),
    "harm": ("", "above", "below", "either"),
    "seed": (0, 1, 77),
    "onset_step": (0, 5, 40, 199, None),
    "visible_step": (0, 50, 120, 199, None),
    "cure_step": (10, 150, None),
    "no_return_step": (0, 90, 150, 199, None),
    "planned_steps": (-3, 0, 1, 200, 400, 2_000_000_000),
    "last_step": (0, 100, 199, 250),
    "final_loss": (0.0, 2.5, 9.0, None),
    "final_gap": (0.0, 0.04, 2.0, None),
    "causes": ("{}", '{"high_lr": 40}', '{"corrupt_tokens": 1}'),
    "visible_steps": ("{}", '{"loss": 30}', '{"grad_norm": 199}'),
    "visible_profiles": ("{}", '{"full": 30, "standard": 30}'),
    "no_return_branches": ("{}", '{"100": 0.01, "150": 0.9}'),
    "family": ("data", "optimisation", "numerics"),
    "held_out": ("", "cause", "severity"),
    "base": ("0", "other"),
    "twin_id": ("", "self", "another"),
    "context": ("{}", '{"lr": 1}'),
}


# What of a run's label its spec, its telemetry or its other labels give too.
DERIVED = (
    "kind",
    "split",
    "cause",
    "scenario",
    "severity",
    "seed",
    "planned_steps",
    "outcome",
    "final_loss",
    "held_out",
)


@pytest.fixture(scope="module")
def whole() -> DataSet:
    return load(sample())


@pytest.fixture(scope="module")
def score(whole: DataSet) -> str:
    return scored(whole)


def scored(dataset: DataSet) -> str:
    facts = score_all(dataset, [DETECTOR])[0].to_dict()
    facts.pop("update_us", None)
    return "\n".join(line for line in json.dumps(facts, sort_keys=True, indent=1).splitlines() if "_us" not in line)


@pytest.fixture(scope="module")
def board(whole: DataSet) -> dict[str, Any]:
    return cache.standing(whole, score_all(whole, list(ONE_LINERS)))


@pytest.fixture(autouse=True)
def same_board(monkeypatch: pytest.MonkeyPatch, board: dict[str, Any]) -> None:
    """Report and release show the sample's board of four detectors: another says nothing of how files are read."""
    monkeypatch.setattr(report, "at_hand", lambda dataset: board)
    monkeypatch.setattr(report, "_picture", lambda story: "data:,")  # its traces are read; drawing takes minutes
    monkeypatch.setattr(releases, "scores_of", lambda *args: board)


class Edited:
    """A copy of the sample, linked file by file; what is written to is copied first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(sample(), root, copy_function=os.link)
        self.labels = False  # whether what runs.parquet says was edited
        self.telemetry = False
        self.recut = False  # whether only the row groups are others
        self.same = True  # whether the answers have to be the sample's

    def write(self, name: str, content: bytes) -> None:
        (self.root / name).unlink()
        (self.root / name).write_bytes(content)

    def write_table(self, name: str, table: pa.Table, rows: int | None = None) -> None:
        (self.root / name).unlink()
        pq.write_table(table, self.root / name, row_group_size=rows)

    def renew(self, *, sums: bool) -> None:
        manifest = json.loads((self.root / "manifest.json").read_text("utf-8", "surrogatepass"))
        files = manifest.get("files") if isinstance(manifest, dict) else None
        for name, facts in files.items() if isinstance(files, dict) else ():
            path = self.root / name
            if isinstance(facts, dict) and len(name) < 200 and "\0" not in name and path.is_file():
                facts |= {"bytes": path.stat().st_size, "sha256": sha256(path)}
        self.write("manifest.json", json.dumps(manifest).encode("utf-8", "surrogatepass"))
        if sums:
            names = [line.partition("  ")[2] for line in (self.root / "SHA256SUMS").read_text().splitlines()]
            self.write(
                "SHA256SUMS",
                "".join(f"{sha256(self.root / n)}  {n}\n" for n in names if (self.root / n).is_file()).encode(),
            )

    def files(self, ending: str) -> list[str]:
        return sorted(p.relative_to(self.root).as_posix() for p in self.root.rglob(f"*{ending}") if p.is_file())


def edit_bytes(draw: random.Random, data: Edited) -> None:
    name = draw.choice(data.files(draw.choice([".parquet", ".json"])))
    content = bytearray((data.root / name).read_bytes())
    for _ in range(draw.choice([1, 1, 3, 30])):
        at = draw.randrange(len(content))
        if draw.random() < 0.7:  # the end holds the columns' places, the start their data
            at = draw.choice([at, max(0, len(content) - 1 - draw.randrange(min(3000, len(content))))])
        how = draw.randrange(4)
        if how == 0:
            content[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            content[at : at + draw.randrange(64)] = draw.randbytes(draw.randrange(64))
        elif how == 2:
            del content[at : at + draw.randrange(1, 200)]
        else:
            content[at] = draw.randrange(256)
        if not content:
            break
    data.write(name, bytes(content))
    data.same = False  # where checksums are made again, it is another data set


def edit_json(draw: random.Random, data: Edited) -> None:
    name = draw.choice(JSON)
    content = json.loads((data.root / name).read_text("utf-8"))
    how = draw.randrange(12)
    if how == 0:
        text = "[" * 100_000 if draw.random() < 0.5 else json.dumps(hostile.deep(900))
    elif how == 1:
        text = json.dumps(hostile.value(draw))
    else:
        for _ in range(draw.choice([1, 1, 2, 5])):
            content = hostile.mutated(draw, content)
        text = json.dumps(content)
    data.write(name, text.encode())


def edit_column(draw: random.Random, data: Edited) -> None:
    """A column of another type, missing, there twice, empty, or with a cell that is none."""
    table = pq.read_table(data.root / "runs.parquet")
    place = draw.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    how = draw.randrange(7)
    if how == 0:
        table = table.drop_columns([name])
    elif how == 1:
        table = table.append_column(
            draw.choice([name, "mine", "steps", "data.rows"]), draw.choice([column, table.column("run_id")])
        )
    elif how == 2:
        kind = draw.choice(
            [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.large_string(), pa.binary(), pa.int8(), pa.null()]
        )
        try:
            column = column.cast(kind)
        except (pa.ArrowException, NotImplementedError):
            column = pa.nulls(len(table), kind)
        table = table.set_column(place, name, column)
    elif how == 3:
        table = table.set_column(place, name, pa.nulls(len(table), column.type))
    elif how == 4:
        table = table.slice(0, draw.randrange(len(table)))
    elif how == 5:
        again = draw.randrange(len(table))
        table = pa.concat_tables([table, table.slice(again, 1)])
    else:
        table = with_cell(draw, table, name, hostile.value)
    data.write_table("runs.parquet", table)
    data.labels = True


def with_cell(draw: random.Random, table: pa.Table, name: str, value: Callable[[random.Random], Any]) -> pa.Table:
    values = table.column(name).to_pylist()
    for _ in range(draw.choice([1, 1, 3])):
        values[draw.randrange(len(values))] = value(draw)
    kind = table.schema.field(name).type
    if pa.types.is_string(kind):
        values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        values = [None if v is None else v.encode("utf-8", "replace").decode() for v in values]
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        column = pa.nulls(len(values), kind)
    return table.set_column(table.column_names.index(name), table.schema.field(name), column)


def edit_labels(draw: random.Random, data: Edited) -> None:
    """A label that another run might have. At most one other place has it as well."""
    table = pq.read_table(data.root / "runs.parquet")
    copies = draw.random() < 0.3  # by split
    name = draw.choice(DERIVED if copies else list(LABELS))
    values = table.column(name).to_pylist()
    rows = [draw.randrange(len(values)) for _ in range(draw.choice([1, 1, 2, 10]))]
    ids = table.column("run_id").to_pylist()
    before = list(values)
    for row in rows:
        value = draw.choice([*LABELS[name], draw.choice(values)])
        values[row] = {"self": ids[row], "another": draw.choice(ids)}.get(value, value) if name == "twin_id" else value
    column = pa.array(values, table.schema.field(name).type)
    table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    data.write_table("runs.parquet", table)
    data.labels = data.labels or values != before
    if copies:
        for part in data.files(".parquet"):
            if part.startswith("runs/"):
                split = Path(part).stem
                data.write_table(part, table.filter(pa.compute.equal(table.column("split"), split)))


def edit_groups(draw: random.Random, data: Edited) -> None:
    """Telemetry in other row groups, or with other rows."""
    name = draw.choice([name for name in data.files(".parquet") if name.startswith("telemetry/")])
    table = pq.read_table(data.root / name, partitioning=None)
    how = draw.randrange(6)
    if how == 1:  # by step: every run is interleaved with the others
        table = table.sort_by([("step", "ascending")])
    elif how == 2:
        drop = draw.randrange(len(table))
        table = pa.concat_tables([table.slice(0, drop), table.slice(drop + draw.randrange(1, 60))])
        data.telemetry = True
    elif how == 3:
        at = draw.randrange(len(table))
        table = pa.concat_tables([table, table.slice(at, 1)])
        data.telemetry = True
    elif how == 4:
        order = np.random.default_rng(draw.randrange(2**32)).permutation(len(table))
        table = table.take(order)
        data.telemetry = True
    data.recut = not data.telemetry
    data.write_table(name, table.combine_chunks(), draw.choice([20, 50, 64, 150, 199, 200, 201, 1000, None]))


def edit_telemetry(draw: random.Random, data: Edited) -> None:
    name = draw.choice([name for name in data.files(".parquet") if name.startswith("telemetry/")])
    table = pq.read_table(data.root / name, partitioning=None)
    place = draw.randrange(table.num_columns)
    column, field = table.column(place), table.schema.field(place)
    how = draw.randrange(6)
    if how == 0:
        table = table.drop_columns([field.name])
    elif how == 1:
        kind = draw.choice(
            [pa.float64(), pa.int32(), pa.string(), pa.list_(pa.float64()), pa.large_string(), pa.list_(pa.string())]
        )
        try:
            column = column.cast(kind)
        except (pa.ArrowException, NotImplementedError):
            column = pa.nulls(len(table), kind)
        table = table.set_column(place, field.name, column)
    elif how == 2:
        table = table.set_column(place, pa.field(field.name, field.type), pa.nulls(len(table), field.type))
    elif how == 3:
        values = column.to_pylist()
        for _ in range(draw.choice([1, 5])):
            values[draw.randrange(len(values))] = None
        table = table.set_column(place, pa.field(field.name, field.type), pa.array(values, field.type))
    elif how == 4 and pa.types.is_list(field.type):
        values = column.to_pylist()
        for _ in range(draw.choice([1, 5])):
            values[draw.randrange(len(values))] = [1.0] * draw.randrange(12)
        table = table.set_column(place, pa.field(field.name, field.type), pa.array(values, field.type))
    else:
        table = table.append_column(draw.choice([field.name, "mine"]), column)
    data.write_table(name, table)
    data.same = False


EDITS = (edit_bytes, edit_json, edit_column, edit_labels, edit_labels, edit_groups, edit_telemetry)


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(*args: object) -> None:
        raise TimeoutError(f"hangs: over {seconds} s")

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(ASLEEP)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def refused(call: Callable[[], object]) -> str:
    """The line with which a call refuses its input; empty where it does not. Anything else is a failure."""
    line = ""
    try:
        call()
    except InputError as error:
        line = str(error)
    assert line.isprintable(), repr(line)
    return line


def test_edited_data_sets(
    attempts: Callable[[], Iterator[random.Random]], whole: DataSet, score: str, tmp_path: Path
) -> None:
    for number, draw in enumerate(attempts()):
        root = tmp_path / f"{number}"
        data = Edited(root)
        edit = draw.choice(EDITS)
        renewed = draw.random() < 0.8
        with at_most(PATIENCE):
            edit(draw, data)
            try:
                if renewed:
                    data.renew(sums=draw.random() < 0.8)
            except (ValueError, RecursionError):
                renewed = False  # a manifest that is none, or too deep for this test to renew
            attempt(draw, data, whole, score, edit.__name__, renewed)
        shutil.rmtree(root)


def attempt(draw: random.Random, data: Edited, whole: DataSet, score: str, edit: str, renewed: bool) -> None:
    found: list[DataSet] = []
    line = refused(lambda: found.append(load(data.root)))
    refused(lambda: load_labels(data.root))
    if line:
        assert not list(data.root.glob(".tmp-*"))
        return
    dataset = found[0]
    bad = [line for run_id in dataset.runs.index if (line := refused(lambda run_id=run_id: read(dataset, run_id)))]
    if not dataset.imported and not dataset.runs.drop(columns="file").equals(whole.runs.drop(columns="file")):
        assert bad or not data.labels, "edited labels are not noticed"
    if data.telemetry:
        assert bad, "rows that are missing, double or elsewhere are not noticed"
    if data.recut:
        assert not bad, bad[0]
        for run_id in whole.runs.index:
            assert same_trace(dataset, whole, run_id), f"{run_id} is another in other row groups"
    use = draw.choice([use for use in USES if not bad or use is not use_score])
    use(draw, data, dataset, whole, score, bool(bad))


def read(dataset: DataSet, run_id: str) -> None:
    trace = dataset.trace(run_id)
    dict(trace.signals)


def same_trace(one: DataSet, other: DataSet, run_id: str) -> bool:
    a, b = one.trace(run_id), other.trace(run_id)
    return list(a.signals) == list(b.signals) and all(np.array_equal(a[n], b[n], equal_nan=True) for n in a.signals)


def use_score(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    found: list[str] = []
    line = refused(lambda: found.append(scored(dataset)))
    if data.same and not line:
        assert found == [score], "another score"


def use_gallery(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    out = data.root.parent / "gallery.html"
    out.unlink(missing_ok=True)
    line = refused(lambda: gallery.write_gallery([data.root], out, Catalogue(), detectors=(DETECTOR,)))
    assert bool(line) != out.exists()
    assert bad or not line or not data.recut, line


def use_report(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    out = data.root.parent / "report.html"
    out.unlink(missing_ok=True)
    line = refused(lambda: report.write_report(data.root, out))
    assert bool(line) != out.exists()
    assert bad or not line or not data.recut, line


def use_release(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    out = data.root.parent / "released"
    shutil.rmtree(out, ignore_errors=True)
    line = refused(lambda: releases.release(data.root, out))
    assert bool(line) != out.exists()
    assert bad or not line or not data.recut, line
    assert not bad or line, "a damaged run is released"


def use_diff(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    line = refused(lambda: summarise(dataset, whole, list(compare_data_sets(dataset, whole))))
    assert not bad or line


def use_export(draw: random.Random, data: Edited, dataset: DataSet, whole: DataSet, score: str, bad: bool) -> None:
    out = data.root.parent / "exported"
    shutil.rmtree(out, ignore_errors=True)
    line = refused(lambda: export(dataset, "trackio", out))
    assert bool(line) != out.exists()
    assert bad or not line or not data.recut, line
    assert not bad or line


USES = (use_score, use_score, use_gallery, use_report, use_release, use_diff, use_export)
