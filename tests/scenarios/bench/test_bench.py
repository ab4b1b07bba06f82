"""Benchmarks run at tiny settings, and their tables say what was measured. No time is asserted."""

import dataclasses
import json
from collections import Counter

import matplotlib
import numpy as np
import pytest
import torch
from joblib import Parallel

from trainwreck.evaluation.errors import InputError
from trainwreck.kernels.attention import reference as attention
from trainwreck.kernels.norms import reference as norms
from trainwreck.models import optim
from trainwreck.models.config import ModelConfig
from trainwreck.models.probe import Probe
from trainwreck.scenarios.bench import Table, bars, bundles, compiled, language, measure, readings, train
from trainwreck.scenarios.bench.peak import step_operations
from trainwreck.scenarios.bench.plain import PlainLoop, rotate
from trainwreck.scenarios.bench.table import Bars, Goal, Limit
from trainwreck.scenarios.config.settings import replaced
from trainwreck.scenarios.config.sizes import healthy
from trainwreck.scenarios.training import telemetry

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
    monkeypatch.setattr(readings, "TIMES", 2)
    monkeypatch.setattr(compiled, "ROUNDS", 2)
    monkeypatch.setattr(compiled, "STEPS", 1)
    monkeypatch.setattr(bundles, "ROUNDS", 2)
    monkeypatch.setattr(bundles, "STEPS", 2)


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
    (axis,) = bars.draw(table).axes
    assert [(bar.get_width(), bar.get_facecolor()) for bar in axis.patches] == [
        (5.0, matplotlib.colors.to_rgba(bars.OWN)),
        (2.0, matplotlib.colors.to_rgba(bars.PEER)),
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
    monkeypatch.setattr(train, "telemetry_cost", lambda tick: TABLE)
    assert measure("telemetry", tick) is TABLE
    assert list(tmp_path.iterdir()) == []
    measure("telemetry", tick, record=True)
    assert (tmp_path / "results" / "name" / "result.json").is_file()


@pytest.mark.usefixtures("short")
def test_speed_against_the_peers(tick):
    table = measure("train", tick)
    assert len(table.rows) == 8
    assert all(value > 0 for row in table.rows for value in row[1:4])
    assert table.rows[0][2] == table.rows[1][3] == 1.0  # each peer is one times itself
    peak, _, low, _, *own = table.limit.rows
    assert [row[0] for row in own] == [row[0] for row in table.rows]
    assert peak[2] == 1.0
    assert low[2] == pytest.approx(low[1] / peak[1])  # of float32's peak
    assert [row[3] for row in own] == pytest.approx([row[1] for row in table.rows])  # steps a second
    assert own[0][1] / own[1][1] == pytest.approx(table.rows[0][1] / table.rows[1][1])
    assert [(goal.what, goal.asked) for goal in table.goals] == [(table.rows[2][0], 1.3), (table.rows[-1][0], 1.6)]
    assert [goal.measured for goal in table.goals] == [table.rows[2][2], table.rows[-1][2]]
    assert tick.ticks[-1] == (2, 2)
    json.dumps(table.to_dict(), allow_nan=False)


@pytest.mark.usefixtures("short")
def test_what_compiling_saves(monkeypatch, tick):
    """With a compiler that leaves everything as it is."""
    monkeypatch.setattr(torch, "compile", lambda loss, **_: loss)
    table = measure("compile", tick)
    assert [row[:2] for row in table.rows] == [("micro", 4), ("deep", 24)]
    assert all(value > 0 for row in table.rows for value in row[2:5])
    assert all(row[-3:] == ("0e+00", "yes", "yes") for row in table.rows)
    assert tick.ticks[-1] == (4, 4)
    json.dumps(table.to_dict(), allow_nan=False)


@pytest.mark.usefixtures("short")
def test_a_compiler_that_changes_numbers_is_told(monkeypatch, tick):
    monkeypatch.setattr(compiled, "SIZES", (train.Size.MICRO,))

    def wrong(loss, **_):
        """The runs of a bundle weigh on each other."""
        return lambda *args: (found := loss(*args)) * len(found)

    monkeypatch.setattr(torch, "compile", wrong)
    table = measure("compile", tick)
    assert table.rows[0][-3:] == ("3e+00", "yes", "no")
    assert "would depend on the bundle" in table.limit.text


def test_without_a_compiler_there_is_nothing_to_measure(monkeypatch, tick):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InputError, match=r"compile: no C\+\+ compiler on the PATH"):
        measure("compile", tick)


def test_the_limit_of_training_by_hand():
    """A step of a run takes 20 ms, 5 of them its products, which take 2 in bfloat16."""
    setup = healthy(train.Size.MICRO)
    work = step_operations(setup.model, setup.data.rows)
    rates = {"peak": work / 2.5e-3, "step": work / 5e-3, "low peak": work / 1e-3, "low step": work / 2e-3}
    speeds = {"plain": 40.0, "nano": 45.0, "ours": 50.0, "other": 1.0, "low": 56.0}
    limit = train._limit(setup, 4, rates, speeds)
    assert "50% of the peak in float32, 50% in bfloat16" in limit.text
    assert "20.0 ms a run, 5.0 of them for products at that rate; the other 15.0 are" in limit.text
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


def test_the_limit_of_telemetry_by_hand():
    """A step of 10 ms; two groups of 0.3 and 0.5 ms, of which a pass over the numbers takes 0.1 each."""
    limit = train._telemetry_limit([("a", 3e-4, 1e-4), ("b", 5e-4, 1e-4)], 10e-3)
    assert [row[0] for row in limit.rows] == ["a", "b", "together"]
    assert limit.rows[-1][1:] == pytest.approx((0.8, 1.08, 0.2, 1.02))
    assert "1.020 times the step without" in limit.text


@pytest.mark.usefixtures("short")
def test_what_telemetry_costs(tick):
    table = measure("telemetry", tick)
    assert [row[0] for row in table.rows] == [1, 4, 8]
    assert all(value > 0 for row in table.rows for value in row[1:])
    assert table.command == "trainwreck bench telemetry --record"
    (goal,) = table.goals
    assert (goal.measured, goal.asked, goal.least) == (table.rows[1][2], 1.03, False)
    *groups, whole = table.limit.rows
    assert len(groups) == 4
    assert all(row[1] > 0 and row[3] > 0 for row in groups)
    assert whole[1] == pytest.approx(sum(row[1] for row in groups))


@pytest.mark.usefixtures("short")
def test_two_workers(tick, monkeypatch):
    """Two bundles at once in half again the time of one are 4/3 of its throughput."""
    seconds = iter([9.0, 9.0, *[2.0, 3.0, 2.5] * 2])  # two to warm up; then one alone and two together, twice
    monkeypatch.setattr(train, "_timed_bundle", lambda: next(seconds))
    monkeypatch.setattr(train, "Parallel", lambda n_jobs, backend: Parallel(n_jobs=1))
    ((alone, ratio, spread),) = measure("workers", tick).rows
    assert alone == 2.0
    assert ratio == pytest.approx(4 / 3)
    assert spread == "1.33 to 1.33"
    assert tick.ticks == [(1, 2), (2, 2)]


@pytest.mark.usefixtures("short")
def test_a_worker_times_its_bundle():
    assert train._timed_bundle() > 0


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


def test_the_groups_are_the_calls_of_a_step(monkeypatch):
    """What the benchmark times by itself is what a recorded step does, as often and in the same shapes."""
    setup = replaced(healthy(train.Size.MICRO), evaluation__every=10**6)
    names = {
        readings: ("measure", "row_statistics", "bucket_losses", "segment_statistics"),
        telemetry: ("row_statistics", "bucket_losses", "segment_statistics"),
        attention: ("measure",),
        norms: ("count_nonfinite",),
        Probe: ("see_stream", "see_hidden"),
        optim: ("moment_rms",),
    }
    seen = []

    def noted(name, real):
        def call(*args, **options):
            at = isinstance(args[0], Probe)  # a method
            shape = tuple(args[at].shape) if isinstance(args[at], torch.Tensor) else ()
            seen.append((name, shape))
            return real(*args, **options)

        return call

    for where, some in names.items():
        for name in some:
            monkeypatch.setattr(where, name, noted(name, getattr(where, name)))
    for group in readings.groups(setup, 2):
        group.prepare()
        group.work()
    alone, seen = Counter(seen), []
    bundles.bundle(2, record=True, validate=False)()
    assert {call: count * bundles.STEPS for call, count in alone.items()} == Counter(seen)


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
