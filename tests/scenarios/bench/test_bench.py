"""Benchmarks run at tiny settings, and their tables say what was measured. No time is asserted."""

import dataclasses
import json
import shutil
import sys

import matplotlib
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from trainwreck.kernels.cpp import build
from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.bench import Table, measure, peak, record, train
from trainwreck.scenarios.bench.claims import language
from trainwreck.scenarios.bench.peak import step_operations
from trainwreck.scenarios.bench.peers import loops as peers
from trainwreck.scenarios.bench.peers.loops import Plain, PlainLoop, rotate
from trainwreck.scenarios.bench.peers.mapped import MappedLoop
from trainwreck.scenarios.bench.table import Bars, Goal, Limit
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import Size, healthy
from trainwreck.scenarios.spec.job import Job
from trainwreck.scenarios.training.bundle import bundle_width

TABLE = Table("name", "Title", "How.", "command", ("what", "value"), (("a", 1.23456), ("b", 2)))


@pytest.fixture
def tick():
    """Notes every tick; work done is never more than work in all."""
    ticks = []

    def note(done, total, what):
        assert 0 <= done <= total
        ticks.append((done, total))

    note.ticks = ticks
    return note


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(train, "ROUNDS", 2)
    monkeypatch.setattr(train, "STEPS", 2)
    monkeypatch.setattr(peak, "TIMES", 2)
    monkeypatch.setattr(peak, "SIDE", 256)


def test_a_table_as_text_and_json():
    assert TABLE.text() == (
        "# Title\n\n| what | value |\n|---|---|\n| a | 1.235 |\n| b | 2 |\n\nHow.\n\nMade by `command`."
    )
    assert TABLE.to_dict()["rows"] == [{"what": "a", "value": 1.23456}, {"what": "b", "value": 2}]


def test_a_limit_is_a_section_of_its_own():
    table = dataclasses.replace(TABLE, limit=Limit("So far.", ("what", "peak"), (("a", 0.5),)))
    assert table.text() == (
        "# Title\n\n| what | value |\n|---|---|\n| a | 1.235 |\n| b | 2 |\n\nHow.\n\n"
        "## How far from the limit\n\n| what | peak |\n|---|---|\n| a | 0.500 |\n\nSo far.\n\nMade by `command`."
    )
    assert table.to_dict() == TABLE.to_dict() | {"limit": {"text": "So far.", "rows": [{"what": "a", "peak": 0.5}]}}
    asks = dataclasses.replace(TABLE, limit=Limit("So far.", ("what", "peak"), (), "When it pays"))
    assert "\n\n## When it pays\n\n" in asks.text()
    assert "How far" not in asks.text()


def test_bars_are_the_rows_with_a_number_and_peers_have_their_colour(tmp_path, monkeypatch, tick):
    rows = (("ours", 5.0), ("theirs", 2), ("gone", ""))
    table = Table("name", "T", "H", "c", ("what", "value"), rows, picture="p.png", bars=Bars("value", ("theirs",)))
    (axis,) = record.bars(table).axes
    assert [(bar.get_width(), bar.get_facecolor()) for bar in axis.patches] == [
        (5.0, matplotlib.colors.to_rgba(record.OWN)),
        (2.0, matplotlib.colors.to_rgba(record.PEER)),
    ]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["ours", "theirs"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "against_plain_loop", lambda tick: table)
    measure("train", tick, record=True)
    assert (tmp_path / "results" / "name" / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "![T](p.png)" in (tmp_path / "results" / "name" / "README.md").read_text("utf-8")


def test_a_row_of_the_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        Table("name", "Title", "How.", "command", ("what", "value"), (("a",),)).to_dict()


def test_a_record_is_readme_numbers_and_environment(tmp_path):
    TABLE.record(tmp_path)
    folder = tmp_path / "name"
    assert (folder / "README.md").read_text("utf-8") == TABLE.text() + "\n"
    assert json.loads((folder / "result.json").read_text("utf-8")) == TABLE.to_dict()
    assert json.loads((folder / "environment.json").read_text("utf-8"))["packages"]
    assert len(list(folder.iterdir())) == 3


def test_measure_records_only_where_it_is_asked_to(monkeypatch, tmp_path, tick):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "against_plain_loop", lambda tick: TABLE)
    assert measure("train", tick) is TABLE
    assert list(tmp_path.iterdir()) == []
    measure("train", tick, record=True)
    assert (tmp_path / "results" / "name" / "result.json").is_file()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("faster", [True, False])  # products in bfloat16
def test_speed_against_the_peers(monkeypatch, tick, faster):
    monkeypatch.setattr(peers, "COMPILERS", ())  # compiling takes longer than all else
    rates = {torch.float32: 1e11, torch.bfloat16: 2e11 if faster else 1e10}
    monkeypatch.setattr(train, "peak", lambda threads, dtype: rates[dtype])
    table = measure("train", tick)
    names = [row[0] for row in table.rows]
    in_cpp = [i for i, name in enumerate(names) if name.endswith(train.CPP)]
    assert len(in_cpp) == (4 if any(map(shutil.which, build.COMPILERS)) else 0)
    setup = healthy(Size.MICRO)
    runs, wide = (bundle_width(setup.data.rows, setup.model, impl=impl) for impl in (None, "cpp"))
    kinds = [name.removeprefix(f"bundle of {runs}, ") for name in names[2:6]]
    assert [names[i] for i in in_cpp] == [f"bundle of {wide}, {kind}, {train.CPP}" for kind in kinds][: len(in_cpp)]
    assert len(table.rows) + table.how.count(" is left out: ") == 10 + len(in_cpp)
    own = {row[0] for row in table.rows} - {*table.bars.peers}
    assert own == {row[0] for row in table.rows if row[0].startswith(("bundle", "single run"))}
    assert all(value > 0 for row in table.rows for value in row[1:4])
    assert table.rows[0][2] == table.rows[1][3] == 1.0  # each peer is one times itself
    peak, _, low, _, *own = table.limit.rows
    assert [row[0] for row in own] == [row[0] for row in table.rows]
    assert peak[2] == 1.0
    assert low[2] == pytest.approx(low[1] / peak[1])  # of float32's peak
    assert [row[3] for row in own] == pytest.approx([row[1] for row in table.rows])  # steps a second
    assert own[0][1] / own[1][1] == pytest.approx(table.rows[0][1] / table.rows[1][1])
    *speeds, telemetry = table.goals
    most, seen, _, low = in_cpp or range(2, 6)  # what goals are asked of
    assert names[5].endswith(train.LOW)
    wanted = [(most, 1.3), (low, 2.0)] if faster else [(most, 1.3)]
    assert [(goal.what, goal.asked) for goal in speeds] == [(names[i], asked) for i, asked in wanted]
    assert [goal.measured for goal in speeds] == [table.rows[i][2] for i, _ in wanted]
    assert (telemetry.what, telemetry.asked, telemetry.least) == (f"a step of {names[seen]}", 1.04, False)
    assert f"A step of '{names[most]}' takes {1e3 / table.rows[most][1]:.1f} ms a run" in table.limit.text
    assert f"Large products are {2 if faster else 0.1} times as fast" in table.limit.text
    assert telemetry.measured > 0
    assert tick.ticks[-1] == (2, 2)
    json.dumps(table.to_dict(), allow_nan=False)


@pytest.mark.usefixtures("short")
def test_a_peer_that_is_not_installed_is_left_out(monkeypatch, tick):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(peers, "COMPILERS", ("no-compiler",))
    monkeypatch.setattr(build, "COMPILERS", ("no-compiler",))
    monkeypatch.delenv("CXX", raising=False)
    build.library.cache_clear()
    table = measure("train", tick)
    build.library.cache_clear()
    assert len(table.rows) == 8
    assert f"'{train.CPP}' are left out: impl: 'cpp' is not allowed here: no C++ compiler" in table.how
    assert table.how.count("pip install 'trainwreck[monitors]'") == 1
    assert f"'{train.COMPILED}' is left out: a compiled loop on a CPU needs a C++ compiler" in table.how


@pytest.mark.skipif(not any(map(shutil.which, peers.COMPILERS)), reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.slow
def test_the_compiled_loop_is_the_plain_one():
    config = ModelConfig(layers=1, width=16, heads=2, context=16)
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, 400)
    torch.manual_seed(0)
    one = PlainLoop(config, 4, tokens, rotary=True)
    torch.manual_seed(0)
    other = PlainLoop(config, 4, tokens, rotary=True, compiled=True)
    for loop in (one, other):
        loop.run(5)
    assert other.network is not other.model
    for left, right in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert_close(left, right, rtol=0.0, atol=1e-3)


@pytest.mark.monitors
def test_runs_mapped_by_jax_are_those_of_a_plain_loop():
    """The same weights and batches; a plain loop's AdamW and clipping."""
    config = ModelConfig(layers=2, width=16, heads=2, context=8, vocab_size=8)
    tokens = np.random.default_rng(0).integers(0, 8, 400)
    mapped = MappedLoop(config, 4, tokens, 2)
    loops = [PlainLoop(config, 4, tokens, rotary=True) for _ in range(2)]
    for run, loop in enumerate(loops):
        loop.model.load_state_dict(
            {name: torch.tensor(value[run]) for name, value in mapped.parameters.items()}, strict=False
        )
        loop.draw = Places(np.random.default_rng(0), run)
    assert (Plain.forward(loops[0].model, *batch(tokens, 8)) != Plain.forward(loops[1].model, *batch(tokens, 8))).all()
    start = [{name: value[run].copy() for name, value in mapped.parameters.items()} for run in range(2)]
    after = mapped.run(6)
    for run, loop in enumerate(loops):
        loop.run(6)
        ends = {name: value.detach().numpy() for name, value in loop.model.named_parameters()}
        # Norms: AdamW divides by the root of small moments, so that single elements may differ by more.
        apart = {name: np.linalg.norm(ends[name] - mapped.parameters[name][run]) for name in ends}
        moved = {name: np.linalg.norm(ends[name] - start[run][name]) for name in ends}
        assert all(apart[name] < 0.02 * moved[name] for name in ends)
        assert np.linalg.norm([*apart.values()]) < 2e-3 * np.linalg.norm([*moved.values()])
    assert np.isfinite(after).all()


@dataclasses.dataclass
class Places:
    """The places of one run of two, of a generator that draws both."""

    draw: np.random.Generator
    run: int

    def integers(self, low, high, rows):
        return self.draw.integers(low, high, (2, rows))[self.run]


def batch(tokens, context):
    return torch.tensor(tokens[None, :context]), torch.tensor(tokens[None, 1 : context + 1])


def test_every_round_samples_batches_of_its_own(monkeypatch):
    monkeypatch.setattr(train, "STEPS", 2)
    drawn, real = [], Job.sampled
    monkeypatch.setattr(Job, "sampled", lambda job, setup, steps: drawn.append(steps) or real(job, setup, steps))
    work = train.bundle(2, record=True)
    drawn.clear()
    for _ in range(2):
        work()
    assert drawn == [range(1, 3)] * 2 + [range(3, 5)] * 2


def test_the_limit_of_training_by_hand():
    """A step of a run takes 20 ms, 5 of them its products, which take 2 in bfloat16."""
    setup = healthy(train.Size.MICRO)
    work = step_operations(setup.model, setup.data.rows)
    rates = {"peak": work / 2.5e-3, "step": work / 5e-3, "low peak": work / 1e-3, "low step": work / 2e-3}
    speeds = {"plain": 40.0, "nano": 45.0, "ours": 50.0, "other": 1.0, "low": 56.0}
    limit = train._limit(setup, 4, rates, speeds, "ours")
    assert "50% of the peak in float32, 50% in bfloat16" in limit.text
    assert (
        "A step of 'ours' takes 20.0 ms a run, 5.0 of them for products at that rate; the other 15.0 are" in limit.text
    )
    assert f"says at most {1 / 17e-3 / 40:.2f} x" in limit.text
    assert "2.5 times as fast in bfloat16" in limit.text
    assert [row[3] for row in limit.rows] == pytest.approx([400, 200, 1000, 500, 40, 45, 50, 1, 56])


@pytest.mark.parametrize(
    ("ratio", "least", "end"),
    [
        (1.5, True, "least 1.5 x a peer; measured: 1.50 x, met."),
        (1.499, True, "least 1.5 x a peer; measured: 1.50 x, not met."),
        (1.5, False, "most 1.5 x a peer; measured: 1.50 x, met."),
        (1.51, False, "most 1.5 x a peer; measured: 1.51 x, not met."),
    ],
)
def test_a_goal_is_met_or_not(ratio, least, end):
    goal = Goal("ours", "a peer", 1.5, ratio, least)
    assert goal.sentence() == f"Asked for: ours at {end}"
    table = dataclasses.replace(TABLE, goals=(goal, goal))
    assert table.text() == TABLE.text().replace("How.", f"How.\n\n{goal.sentence()} {goal.sentence()}")
    assert [Goal(**facts) for facts in table.to_dict()["goals"]] == [goal, goal]


@pytest.mark.parametrize("rotary", [True, False])
def test_the_plain_loop_learns(rotary):
    config = ModelConfig(layers=1, width=16, heads=2, context=16)
    torch.manual_seed(0)  # the peer draws its weights as plain PyTorch does
    tokens = np.tile(np.arange(8), 200)
    loop = PlainLoop(config, 4, tokens, rotary)
    row = torch.from_numpy(tokens[None, :17])
    before = loop.model(row[:, :-1], row[:, 1:]).item()
    loop.run(40)
    after = loop.model(row[:, :-1], row[:, 1:]).item()
    assert abs(before - np.log(config.vocab_size)) < 1
    assert after < before / 2


def test_autocast_multiplies_in_bfloat16(monkeypatch):
    config = ModelConfig(layers=1, width=16, heads=2, context=16)
    seen = []
    real = torch.nn.functional.gelu
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x: (seen.append(x.dtype), real(x))[1])
    for autocast in (False, True):
        PlainLoop(config, 4, np.tile(np.arange(8), 200), True, autocast=autocast).run(1)
    assert seen == [torch.float32, torch.bfloat16]


def test_rotation_keeps_lengths():
    draw = torch.Generator().manual_seed(0)
    x, angle = torch.randn(2, 3, 5, 8, generator=draw, dtype=torch.float64), torch.rand(5, 4, dtype=torch.float64)
    turned = rotate(x, angle.cos(), angle.sin())
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(rotate(turned, angle.cos(), -angle.sin()), x)


def test_the_worth_of_each_part_at_tiny_settings(monkeypatch, tick):
    small = {"model__width": 16, "model__heads": 2, "model__context": 32, "data__rows": 2, "steps": 3}
    monkeypatch.setattr(language, "SEEDS", range(2))
    monkeypatch.setattr(language, "LANGUAGES", (0,))
    monkeypatch.setattr(language, "VALIDATION_ROWS", 32)
    monkeypatch.setattr(language, "healthy", lambda size: replaced(healthy(size), **small))
    table = language.parts(tick)
    assert [row[1] for row in table.rows] == ["healthy", *(name for name, _, _ in language.PARTS)]
    assert all(row[2] == table.rows[0][2] > 0 for row in table.rows)
    assert len(table.to_dict()["rows"][0]) == len(table.columns)
    assert tick.ticks == sorted(tick.ticks)
