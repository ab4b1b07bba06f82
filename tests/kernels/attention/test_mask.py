"""Masks: what is added to the scores, which regions are forbidden, and what is made only once."""

import pytest
import torch

from trainwreck.kernels.attention import MASKED, Mask, attention, document_bias, mask_bias

CPU = torch.device("cpu")
IDS = torch.tensor([[[0, 0, 1, 7, -1, -1], [3, 3, 3, 3, 3, 3]], [[2, 1, 2, 1, 0, 100000], [5, 4, 3, 2, 1, 0]]])
OTHER = IDS[..., :, None] != IDS[..., None, :]
CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_add_nothing_where_allowed_and_erase_every_score_elsewhere(dtype: torch.dtype) -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    bias = mask_bias(allowed, dtype)
    assert bias.dtype == dtype
    assert torch.equal(bias == 0, allowed)
    assert bool((bias[~allowed] == MASKED).all())
    assert torch.exp(torch.tensor(MASKED, dtype=dtype)) == 0
    # Whatever a finite score of ordinary size was, masked it is the same number.
    assert torch.tensor(1e6, dtype=dtype) + MASKED == torch.tensor(-1e6, dtype=dtype) + MASKED


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_documents_see_their_own_tokens_only(dtype: torch.dtype) -> None:
    bias = document_bias(IDS, dtype)
    assert bias.dtype == dtype
    assert torch.equal(bias, torch.zeros(OTHER.shape, dtype=dtype).masked_fill(OTHER, MASKED))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_key_is_masked_once_by_each_mask_that_hides_it(dtype: torch.dtype) -> None:
    table = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.7
    apart = torch.tensor([True, False])
    count = (~table).unsqueeze(1).int() + (OTHER & apart.view(-1, 1, 1, 1)).int()
    assert torch.equal(Mask(IDS, table, apart).bias(6, dtype, CPU), count.to(dtype) * MASKED)


def test_without_a_table_a_mask_is_causal_and_without_documents_it_is_one_document() -> None:
    hidden = ~CAUSAL
    assert torch.equal(Mask(IDS).bias(6, torch.float32, CPU) != 0, hidden | OTHER)
    assert torch.equal(Mask().bias(6, torch.float32, CPU)[0, 0] != 0, hidden)
    assert torch.equal(
        Mask(IDS, CAUSAL.expand(2, 6, 6)).bias(6, torch.float32, CPU), Mask(IDS).bias(6, torch.float32, CPU)
    )
    assert torch.equal(Mask().table(6, CPU), CAUSAL[None].to(torch.int32))


def test_a_mask_is_plain_as_long_as_nothing_of_it_differs() -> None:
    assert Mask().plain
    assert Mask(IDS).plain
    assert not Mask(IDS, leaky=True).plain
    assert not Mask(IDS, CAUSAL[None]).plain
    assert not Mask(IDS, documents_N=torch.tensor([True, True])).plain


def test_regions_are_the_future_other_documents_and_padding_where_something_leaks() -> None:
    assert Mask(IDS).regions(6, CPU) is None
    future, other, padding = Mask(IDS, leaky=True).regions(6, CPU)
    assert torch.equal(future, ~CAUSAL)
    assert torch.equal(padding, (IDS < 0).unsqueeze(2).expand_as(padding))
    assert torch.equal(other, OTHER & ~padding)
    assert not any(region.any() for region in Mask(leaky=True).regions(6, CPU)[1:])


def test_what_all_layers_need_is_made_once() -> None:
    mask = Mask(IDS, leaky=True)
    assert mask.bias(6, torch.float32, CPU) is mask.bias(6, torch.float32, CPU)
    assert mask.bias(6, torch.float64, CPU).dtype == torch.float64
    assert mask.regions(6, CPU) is mask.regions(6, CPU)
    assert mask.table(6, CPU) is mask.table(6, CPU)
    assert mask.short_documents() is mask.short_documents()


def test_a_table_may_be_shared_by_runs(device: str) -> None:
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 1, 6, 4, generator=draw).to(device)
    table = (torch.rand(1, 6, 6, generator=draw) < 0.7).to(device)
    scale = torch.ones(2, device=device)
    for impl in ("reference", "triton"):
        shared, spelt_out = (
            attention(q, k, v, mask=Mask(allowed_NTS=part), scale_N=scale, impl=impl)[0]
            for part in (table, table.expand(2, 6, 6))
        )
        assert torch.equal(shared, spelt_out)
