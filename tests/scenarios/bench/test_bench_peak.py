"""What a processor can do, beside what a step has to: counts by hand, and rates at tiny sizes."""

import pytest
import torch

from trainwreck.models.config import Activation, ModelConfig
from trainwreck.scenarios.bench import peak
from trainwreck.scenarios.bench.peak import Product, products, step_operations
from trainwreck.scenarios.bench.peers.loops import Plain

TINY = ModelConfig(layers=2, width=8, heads=2, mlp_ratio=4, vocab_size=10, context=4)


def test_products_by_hand():
    """3 rows of 4 tokens are 12; 2 heads of width 4 make 6 squares of 4 x 4."""
    block = [
        Product(1, 12, 8, 24),  # q, k and v
        Product(6, 4, 4, 4),  # scores
        Product(6, 4, 4, 4),  # and what they weigh
        Product(1, 12, 8, 8),
        Product(1, 12, 8, 32),
        Product(1, 12, 32, 8),
    ]
    assert products(TINY, rows=3) == [*block, *block, Product(1, 12, 8, 10)]
    of_a_block = 2 * (12 * 8 * 24 + 2 * 6 * 4 * 4 * 4 + 12 * 8 * 8 + 12 * 8 * 32 + 12 * 32 * 8)
    assert of_a_block == 19_968
    assert step_operations(TINY, rows=3) == 3 * (2 * 19_968 + 2 * 12 * 8 * 10) == 125_568


def test_a_gate_is_one_product_more_in_a_layer():
    gated = ModelConfig(layers=2, width=8, heads=2, vocab_size=10, context=4, activation=Activation.SWIGLU)
    assert step_operations(gated, 3) - step_operations(TINY, 3) == 3 * 2 * 2 * 12 * 8 * 32


def test_pytorch_counts_the_same_in_the_peer():
    """Its counter knows no attention of the CPU: those products are left out on both sides."""
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    model, tokens = Plain(TINY, rotary=True), torch.zeros(3, 4, dtype=torch.long)
    with counter:
        model(tokens, tokens).backward()
    found = counter.get_flop_counts()["Global"]
    dense = sum(n for op, n in found.items() if "attention" not in str(op))
    squares = 3 * sum(one.operations for one in products(TINY, 3) if one.count == 6)
    assert dense == step_operations(TINY, 3) - squares


def test_rates_are_measured_on_the_threads_asked_for_which_stay_as_they_were(monkeypatch):
    monkeypatch.setattr(peak, "SIDE", 8)
    monkeypatch.setattr(peak, "TIMES", 2)
    before, seen = torch.get_num_threads(), []
    real = peak._least
    monkeypatch.setattr(peak, "_least", lambda work: (seen.append(torch.get_num_threads()), real(work))[1])
    assert peak.peak(1) > 0
    assert peak.peak(2) > 0
    assert peak.products_alone(TINY, rows=3, runs=2) > 0
    assert peak.peak(1, torch.bfloat16) > 0
    assert peak.products_alone(TINY, rows=3, runs=2, dtype=torch.bfloat16) > 0
    assert seen == [1, 2, 1, 1, 1]
    assert torch.get_num_threads() == before


def test_a_product_comes_with_its_two_of_the_backward():
    (a, b, out), (d, b_t, d_a), (a_t, same, d_b) = peak._all_three(Product(3, 2, 4, 5), runs=2, dtype=torch.bfloat16)
    assert {x.dtype for x in (a, b, out, d, b_t, d_a, a_t, d_b)} == {torch.bfloat16}
    assert (a.shape, b.shape, out.shape) == ((6, 2, 4), (6, 4, 5), (6, 2, 5))
    assert d is same
    assert (d @ b_t).shape == d_a.shape == a.shape
    assert (a_t @ d).shape == d_b.shape == b.shape
