"""A query to which nothing is allowed sees forbidden keys: the masses said 0, and its entropy was noise of 1e22."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from trainwreck.kernels.attention import Mask, attention
from trainwreck.models.config import ModelConfig
from trainwreck.models.tables import healthy_tables
from trainwreck.scenarios.config.settings import DataConfig, EvaluationConfig, Setup
from trainwreck.scenarios.spec.faults import At, TableEdit
from trainwreck.scenarios.spec.job import Job, leaks
from trainwreck.scenarios.training.loop import train

CONTEXT = 16
SETUP = Setup(
    model=ModelConfig(width=16, heads=2, context=CONTEXT), data=DataConfig(rows=3), evaluation=EvaluationConfig(rows=2),
    steps=4,
)  # fmt: skip


def blind(tables, setup):
    """No position sees itself, so the first of a document sees nothing that is allowed."""
    return dataclasses.replace(tables, allowed_NTS=tables.allowed_NTS.tril(-1))


@pytest.fixture(scope="module")
def trace():
    return train([Job("blind", 0, SETUP, (At(2, TableEdit(blind)),))])[0].trace


def test_such_a_mask_is_known_to_leak():
    assert leaks(blind(healthy_tables(SETUP.model, 1), SETUP))


def test_what_leaks_is_recorded(trace):
    """A document has sixteen tokens or more: in each row the first query alone has no key, and sees all sixteen."""
    direct = {"self": 1 / CONTEXT**2, "future": (CONTEXT - 1) / CONTEXT**2, "other_document": 0.0, "padding": 0.0}
    for name, mass in direct.items():
        np.testing.assert_allclose(trace[f"attention_mass_{name}"][2:], mass, rtol=CONTEXT * np.finfo(np.float32).eps)
    assert (trace["attention_mass_future"][:2] == 0).all()


def test_entropy_stays_an_entropy(trace):
    for name in ("attention_entropy", "attention_entropy_min", "head_entropy"):
        assert (trace[name] >= -1e-6).all(), name
        assert (trace[name] <= math.log(CONTEXT)).all(), name
    assert (trace["attention_logit_max"] > -100).all()


@pytest.mark.parametrize("keys", [1, 5, 64])
def test_a_query_without_keys_is_uniform_and_says_so(keys):
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 1, keys, 4, generator=draw)
    mask = Mask(allowed_NTS=torch.zeros(1, keys, keys, dtype=torch.bool))
    out, stats = attention(q, k, v, mask=mask, scale_N=torch.ones(1))
    # A mean of `keys` numbers in float32.
    limit = keys * np.finfo(np.float32).eps
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(v), rtol=limit, atol=limit)
    torch.testing.assert_close(stats.entropy, torch.full_like(stats.entropy, math.log(keys)), rtol=limit, atol=limit)
