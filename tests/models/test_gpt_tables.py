"""Masks, scales, rotary tables and branch gains of each run, against the plain model with the same ones."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from trainwreck.models import gpt
from trainwreck.models.config import Norm, Placement
from trainwreck.models.probe import Probe
from trainwreck.models.rotary import rotary_table
from trainwreck.models.tables import Tables, healthy_tables
from trainwreck.models.variants import select
from trainwreck.models.variants.stream_noise import StreamNoise

T = 7
FULL = torch.ones(T, T, dtype=torch.bool)


def faults(angles: torch.Tensor) -> dict[str, dict[str, Any]]:
    """Name to what differs from a healthy run, in the plain model's terms."""
    return {
        "healthy": {},
        "mask missing": {"allowed": FULL},
        "mask one ahead": {"allowed": FULL.tril(1)},
        "documents leak": {"by_document": False},
        "mask missing, documents leak": {"allowed": FULL, "by_document": False},
        "scores zeroed": {"scale": 0.0},
        "scores scaled": {"scale": 1.7},
        "rotary on keys only": {"angle_q": torch.zeros_like(angles)},
        "rotary missing": {"angle_q": torch.zeros_like(angles), "angle_k": torch.zeros_like(angles)},
        "rotary of keys offset": {"angle_k": angles + angles[1]},
        "rotary stretched": {"angle_q": angles / 4, "angle_k": angles / 4},
        "branches scaled": {"branch_gain": torch.tensor([[0.0, 1.0], [2.0, -0.5]])},
        "shortcuts scaled": {"shortcut_gain": torch.tensor([[0.3, 1.0], [0.0, 1.5]])},
        "logits scaled": {"logit_gain": 4.0},
        "a norm missing": {"bare": torch.tensor([[False, False], [True, False]])},
    }


def tables_of(config: Any, knobs: list[Any], dtype: torch.dtype, leaky: bool) -> Tables:
    tables = healthy_tables(config, len(knobs), dtype)

    def rows(name: str, healthy: torch.Tensor, turn: Callable[[Any], Any] = lambda x: x) -> torch.Tensor:
        chosen = (getattr(k, name) for k in knobs)
        return torch.stack([row if x is None else turn(x) for row, x in zip(healthy, chosen, strict=True)])

    def circle(angle: torch.Tensor) -> torch.Tensor:
        return torch.polar(torch.ones_like(angle), angle).to(tables.rotary_q_NTK.dtype)

    ones = torch.ones(len(knobs), config.layers, 2, dtype=dtype)
    return Tables(
        allowed_NTS=rows("allowed", tables.allowed_NTS),
        documents_N=torch.tensor([k.by_document for k in knobs]),
        scale_N=rows("scale", tables.scale_N, lambda x: torch.tensor(x, dtype=dtype)),
        rotary_q_NTK=rows("angle_q", tables.rotary_q_NTK, circle),
        rotary_k_NTK=rows("angle_k", tables.rotary_k_NTK, circle),
        branch_gain_NL2=rows("branch_gain", ones, lambda x: x.to(dtype)),
        shortcut_gain_NL2=rows("shortcut_gain", ones, lambda x: x.to(dtype)),
        logit_gain_N=rows("logit_gain", ones[:, 0, 0], lambda x: torch.tensor(x, dtype=dtype)),
        bare_NL2=rows("bare", ones < 0),
        leaky=leaky,
    )


@pytest.mark.parametrize(("placement", "norm"), [(Placement.PRE, Norm.LAYER), (Placement.POST, Norm.RMS)])
def test_faulty_runs_of_every_kind_side_by_side_are_the_plain_model_with_that_fault(
    placement: Placement,
    norm: Norm,
    make_problem: Callable[..., Any],
    make_knobs: type[Any],
    plain_angles: Callable[..., Any],
    stacked: Callable[..., Any],
) -> None:
    problem = make_problem(runs=1, context=T)
    known = faults(plain_angles(problem.config))
    problem = make_problem(runs=len(known), context=T, placement=placement, norm=norm)
    problem.knobs = [make_knobs(**changed) for changed in known.values()]
    exact = problem.plain(torch.float64)
    tables = tables_of(problem.config, problem.knobs, torch.float64, leaky=True)
    got = stacked(problem, torch.float64, tables=tables)
    for i, fault in enumerate(known):
        for name, right in exact.items():
            # Far above float64's rounding, far below what any fault here does.
            error = (got[name][i] - right[i]).norm().item()
            assert error <= torch.finfo(torch.float32).eps * max(right[i].norm().item(), 1), f"{fault}: {name}"


def test_every_fault_changes_the_logits(
    make_problem: Callable[..., Any], make_knobs: type[Any], plain_angles: Callable[..., Any]
) -> None:
    problem = make_problem(runs=1, context=T)
    known = faults(plain_angles(problem.config))
    logits = {}
    for fault, changed in known.items():
        problem.knobs = [make_knobs(**changed)]
        logits[fault] = problem.plain(torch.float64)["logits"]
    names = list(known)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            assert (logits[one] - logits[other]).norm() > 1e-3, f"{one}, {other}"


def test_healthy_tables_are_causal_and_turn_queries_like_keys(make_problem: Callable[..., Any]) -> None:
    config = make_problem(context=9).config
    tables = healthy_tables(config, 3)
    rotary = rotary_table(9, config.head_width, config.rope_base)
    for i in range(3):
        assert torch.equal(tables.allowed_NTS[i], torch.ones(9, 9, dtype=torch.bool).tril())
        assert torch.equal(tables.rotary_q_NTK[i], rotary)
        assert torch.equal(tables.rotary_k_NTK[i], rotary)
    assert tables.scale_N.tolist() == [pytest.approx(config.head_width**-0.5)] * 3
    assert bool(tables.documents_N.all())
    assert not tables.leaky


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_healthy_run_has_the_same_bits_in_a_program_made_for_leaky_ones(
    dtype: torch.dtype, make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=3)
    tight = healthy_tables(problem.config, 3, dtype)
    ones = torch.ones(3, 2, 2, dtype=dtype)
    wide = dataclasses.replace(
        tight, leaky=True, branch_gain_NL2=ones, shortcut_gain_NL2=ones, logit_gain_N=ones[:, 0, 0]
    )
    wide = dataclasses.replace(wide, bare_NL2=ones < 0)
    one, other = stacked(problem, dtype, tables=tight), stacked(problem, dtype, tables=wide)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_nothing_after_a_token_and_nothing_of_another_document_moves_its_logits(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=1, rows=1, context=9)
    problem.documents[:] = torch.tensor([0, 0, 0, 4, 4, 4, 4, -1, -1])
    before = stacked(problem, torch.float32)["logits"][0]
    for changed in range(9):
        other = dataclasses.replace(problem, tokens=problem.tokens.clone())
        other.tokens[..., changed] = (other.tokens[..., changed] + 1) % problem.config.vocab_size
        after = stacked(other, torch.float32)["logits"][0]
        document = problem.documents[0, 0]
        sees = (torch.arange(9) >= changed) & (document == document[changed])
        assert torch.equal((after != before).any(-1), sees)


def test_noise_is_a_function_of_seed_step_and_site() -> None:
    std = torch.tensor([2.0, 0.0])
    draw = StreamNoise([3, 4], 7, std).draw("layer_0", 500, 8)
    assert draw[0].std().item() == pytest.approx(2.0, rel=0.05)
    assert draw[0].mean().item() == pytest.approx(0.0, abs=0.15)
    assert not draw[1].any()
    assert torch.equal(StreamNoise([4, 3], 7, std.flip(0)).draw("layer_0", 500, 8)[1], draw[0])
    for other in (
        StreamNoise([3], 8, std[:1]).draw("layer_0", 500, 8),
        StreamNoise([3], 7, std[:1]).draw("layer_1", 500, 8),
    ):
        assert not torch.equal(other[0], draw[0])


def test_noise_enters_the_stream_after_every_layer(
    make_problem: Callable[..., Any], stacked: Callable[..., Any]
) -> None:
    problem = make_problem(runs=2)
    tables = dataclasses.replace(
        healthy_tables(problem.config, 2, torch.float64), noise_N=torch.tensor([0.5, 0.0], dtype=torch.float64)
    )
    params = {name: value.detach() for name, value in problem.leaves(torch.float64).items()}
    clean, noisy = Probe(), Probe()
    hooks = select.hooks(problem.config, tables, [3, 4], 7)
    quiet = gpt.Model(params, problem.config, tables, probe=clean)
    loud = dataclasses.replace(quiet, probe=noisy, hooks=hooks)
    quiet, loud = (gpt.forward(model, problem.tokens, problem.documents) for model in (quiet, loud))
    assert torch.equal(quiet[1], loud[1])
    assert not torch.equal(quiet[0], loud[0])
    m = problem.tokens[0].numel()
    added = StreamNoise([3, 4], 7, tables.noise_N).draw("layer_0", m, problem.config.width)
    assert noisy.stream[0][0][0].item() == pytest.approx((clean.stream[0][0][0] + added[0].mean()).item(), abs=1e-12)
