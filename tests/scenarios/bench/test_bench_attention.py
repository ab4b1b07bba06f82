"""Attention of a CPU step against PyTorch's, one round. No time is asserted."""

import json

import pytest
import torch

from trainwreck.models.config import ModelConfig
from trainwreck.scenarios.bench import attention as bench
from trainwreck.scenarios.bench import measure, record
from trainwreck.scenarios.bench.attention import OFF, ON, PEERS, SDPA, SECOND, draw
from trainwreck.scenarios.config.sizes import Size

TINY = ModelConfig(layers=1, width=8, heads=2, vocab_size=10, context=16)


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(bench, "SIZES", (Size.MICRO,))


@pytest.mark.parametrize(("there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_a_cuda_device_is_measured_where_there_is_one(there, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(bench.attention_cuda, "against_peers", lambda tick: "cuda")
    monkeypatch.setattr(bench, "against_sdpa", lambda tick: "cpu")
    assert measure("attention", lambda *said: None) == chosen


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a CUDA device that is measured")
@pytest.mark.usefixtures("brief")
def test_every_subject_is_a_row_and_the_products_are_what_is_left(tmp_path):
    ticks = []
    table = measure("attention", lambda done, total, what: ticks.append((done, total)))
    assert [row[0] for row in table.rows] == [f"micro: {name}" for name in (*PEERS, OFF, ON)]
    assert all(row[2] > 0 for row in table.rows)
    assert [row[3 + i] for i, row in enumerate(table.rows[: len(PEERS)])] == [1.0] * len(PEERS)
    ((size, runs, length, width, own, alone, share),) = table.limit.rows
    assert (size, runs, length, width) == ("micro", 4, 64, 16)
    assert own == table.rows[-1][2]
    assert share == pytest.approx(alone / own)  # of one round
    assert ticks[-1] == (1, 1)
    json.dumps(table.to_dict(), allow_nan=False)
    record.save_picture(table, tmp_path / "bars.png")
    assert set(table.bars.peers) < {row[0] for row in table.rows}


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("name", [SECOND, OFF, ON])
def test_what_computes_something_else_is_not_timed(name, monkeypatch):
    real = bench.attentions

    def wrong(case):
        subjects = real(case)
        right = subjects[name]
        return subjects | {name: lambda q, k, v: right(q, k, v) + 1e-2 * v}

    monkeypatch.setattr(bench, "attentions", wrong)
    monkeypatch.setattr(bench, "processor_seconds", lambda *given: pytest.fail("timed"))
    with pytest.raises(RuntimeError, match=rf"^here: {name}: wrong: result 0 is off by "):
        bench.of_cases(draw(2, 3, TINY), "here", lambda: None, lambda *said: None)


def test_a_second_pass_measures_what_ours_measures_in_one(monkeypatch):
    """Before rounding: the scores that it overwrites, and the probabilities, are the very same."""
    (case, _), seen = draw(2, 3, TINY), []
    real = bench.measure

    def noting(scores, probs, regions):
        seen.append(real(scores, probs, regions))
        return seen[-1]

    monkeypatch.setattr(bench, "measure", noting)
    monkeypatch.setattr("trainwreck.kernels.attention.reference.measure", noting)
    subjects = bench.attentions(case)
    for name in (SDPA, OFF, SECOND, ON):
        subjects[name](case.q, case.k, case.v)
    second, ours = seen
    for found, expected in zip(second[:6], ours[:6], strict=True):
        assert torch.equal(found, expected)
