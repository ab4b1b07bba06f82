"""The attention benchmark of a CUDA device at tiny sizes on a CPU, with a clock that counts."""

import itertools
import json

import pytest
import torch

from trainwreck.evaluation.errors import InputError
from trainwreck.scenarios.bench import attention_cuda as attention
from trainwreck.scenarios.bench import measure, record
from trainwreck.scenarios.bench.attention_cuda import CUDNN, FLASH, MATERIALISED, OFF, ON, Case, Scale
from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.bench.timing import Peaks

PEAKS = Peaks(bandwidth=1e12, arithmetic=1e14)
PNG = b"\x89PNG\r\n\x1a\n"


class Counting:
    """The n-th thing made ready takes n ms, however often."""

    def __init__(self):
        self.count = itertools.count(1)

    def ready(self, work):
        ms = float(next(self.count))
        return lambda: (work(), ms)[1], ""


@pytest.fixture
def tick():
    ticks = []

    def note(done, total, what):
        ticks.append((done, total))

    note.ticks = ticks
    return note


@pytest.fixture
def tiny():
    names = ("PyTorch's own", MATERIALISED, OFF, ON)
    return Scale(lengths=(4, 8), widths=(8,), tokens=16, heads=2, rounds=2, device="cpu", names=names)


@pytest.fixture
def on_cpu(monkeypatch):
    """A peer that every machine has in place of those of a GPU, and the reference in place of Triton."""
    real = attention.subjects

    def subjects(case, names):
        plain = attention.sdpa(torch.nn.attention.SDPBackend.MATH)
        own = {s.name: s for s in real(case, [name for name in names if name in (MATERIALISED, OFF, ON)])}
        for name, stats in ((OFF, False), (ON, True)):
            fn = attention.ours(case, impl="reference", stats=stats)
            own[name] = attention.Subject(name, lambda fn=fn: case.work(fn))
        peer = attention.Subject("PyTorch's own", lambda: case.work(plain))
        return [own.get(name, peer) for name in names]

    monkeypatch.setattr(attention, "subjects", subjects)


@pytest.mark.usefixtures("on_cpu")
def test_every_subject_is_a_row_of_every_size_and_pass(tick, tiny):
    made = attention.compare(tick, Counting(), PEAKS, tiny)
    rows = made.to_dict()["rows"]
    assert len(rows) == 2 * 2 * 4
    assert {(row["width"], row["length"], row["pass"]) for row in rows} == {
        (8, length, name) for length in (4, 8) for name in ("forward", "forward and backward")
    }
    assert [row["note"] for row in rows] == [""] * 16  # all agree in output and gradients, so all were timed
    assert [row["ms (median)"] for row in rows[:4]] == [1, 2, 3, 4]
    assert rows[3][f"x {OFF}"] == pytest.approx(3 / 4)
    assert rows[0][f"x {FLASH}"] == ""  # it was not among the subjects
    assert tick.ticks[-1] == (4, 4)
    json.dumps(made.to_dict(), allow_nan=False)


def case(length=8, width=4, backward=False):
    x = torch.zeros(1, 3, 2, length, width, dtype=torch.bfloat16)
    return Case(x, x, x, x, backward)


def test_floors_count_what_has_to_move_and_the_products_under_the_diagonal():
    elements = 3 * 2 * 8 * 4
    assert case().moved() == 4 * elements * 2
    assert case(backward=True).moved() == 12 * elements * 2
    pairs = 3 * 2 * (8 * 9 // 2)  # queries with the keys that they see
    assert case().operations() == 2 * pairs * 2 * 4
    assert case(backward=True).operations() == 7 * pairs * 2 * 4


def test_the_materialised_form_is_left_out_where_its_scores_are_too_large(monkeypatch):
    assert case().scores_bytes() == 3 * 4 * 3 * 2 * 8 * 8
    monkeypatch.setattr(attention, "SCORES_LIMIT", case().scores_bytes())
    assert not attention.subjects(case(), [MATERIALISED])[0].left_out
    monkeypatch.setattr(attention, "SCORES_LIMIT", case().scores_bytes() - 1)
    left_out, kept = attention.subjects(case(), [MATERIALISED, FLASH])
    assert left_out.left_out.startswith("left out: its [T, S] tensors are ")
    assert not kept.left_out


def test_at_the_sizes_of_a_gpu_only_long_rows_are_left_out():
    left_out = []
    for length in Scale().lengths:
        shape = (1, Scale().tokens // length, Scale().heads, length, 64)
        x = torch.empty(shape, dtype=torch.bfloat16, device="meta")
        (subject,) = attention.subjects(Case(x, x, x, x, True), [MATERIALISED])
        left_out += [length] if subject.left_out else []
    assert left_out == [4096, 8192]


def test_a_peer_that_this_machine_lacks_is_a_row(tick, tiny):
    scale = Scale(lengths=(4,), widths=(8,), tokens=8, heads=1, rounds=1, device="cpu", names=(CUDNN, MATERIALISED))
    rows = attention.compare(tick, Counting(), PEAKS, scale).to_dict()["rows"]
    assert [row["what"] for row in rows] == [CUDNN, MATERIALISED] * 2
    assert all(row["note"].startswith("did not run: ") for row in rows[::2])
    assert all(row["ms (median)"] > 0 and row[f"x {CUDNN}"] == "" for row in rows[1::2])


def rows_for(ratios):
    """Rows at width 64 with a ratio over the flash peer for each length."""
    made = []
    for length, ratio in ratios.items():
        row = dict.fromkeys(attention.COLUMNS, "")
        row |= {"width": 64, "length": length, "pass": "forward and backward", "what": ON, f"x {FLASH}": ratio}
        row |= {"floor: memory, ms": 0.1, "floor: arithmetic, ms": 0.2, "ms (median)": 0.5}
        made.append(tuple(row.values()))
    return made


def test_the_verdict_is_the_least_ratio_at_the_lengths_that_matter():
    ratios = {64: 0.1, 128: 1.5, 256: 1.25, 1024: 1.375, 2048: 0.2}
    assert attention.verdict(rows_for(ratios)) == (
        "At width 64, lengths 128 to 1024, forward and backward, statistics on, at least: 1.25 x SDPA flash. "
    )
    assert [goal.sentence() for goal in attention.goals(rows_for(ratios))] == [
        "Asked for: attention with statistics, forward and backward, width 64, lengths 128 to 1024 at least 1 x SDPA "
        "flash; measured: 1.25 x, met."
    ]
    assert attention.goals(rows_for({64: 1.0})) == ()
    assert attention.verdict(rows_for({64: 1.0})) == ""
    assert attention.verdict(rows_for({128: ""})) == ""


def test_the_plot_has_a_line_for_every_subject_and_the_floor(tmp_path):
    made = Table("bench/attention", "Title", "How.", "command", attention.COLUMNS, tuple(rows_for({64: 1.0, 128: ""})))
    figure = record.lines(made)
    (axis,) = figure.axes
    lines = {line.get_label(): line for line in axis.get_lines()}
    assert set(lines) == {*record.STYLES, "floor"}
    assert lines["floor"].get_ydata().tolist() == [0.2, 0.2]
    assert lines[ON].get_ydata().tolist() == [0.5, 0.5]
    assert len(lines[FLASH].get_xdata()) == 0
    record.save_picture(made, tmp_path / "attention.png")
    assert (tmp_path / "attention.png").read_bytes().startswith(PNG)


def test_every_subject_has_a_style():
    assert set(record.STYLES) == set(Scale().names)


def test_a_record_has_the_picture(monkeypatch, tmp_path, tick):
    made = Table(
        "bench/attention", "Title", "How.", "command", attention.COLUMNS, tuple(rows_for({64: 1.0})), picture="a.png"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    monkeypatch.setattr("trainwreck.scenarios.bench.attention.against_peers", lambda tick: made)
    measure("attention", tick, record=True)
    folder = tmp_path / "results" / "bench/attention/a-gpu"
    assert "![Title](a.png)" in (folder / "README.md").read_text("utf-8")
    assert (folder / "a.png").read_bytes().startswith(PNG)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a CUDA device the measurement runs")
def test_without_a_device_nothing_is_measured(tick):
    with pytest.raises(InputError, match=r"^device: no CUDA device; allowed: a machine with one$"):
        attention.against_peers(tick)
