"""Rows of the language: a function of (seed, stream, step), packed documents of the stated lengths."""

import numpy as np
import pytest
import torch

from trainwreck.scenarios.data.sources.language import Language, LanguageSpec, Structure

FIELDS = ("tokens", "documents", "nats", "structure")


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


def at(rows, step):
    return [getattr(rows, name)[step] for name in FIELDS]


def test_a_step_does_not_depend_on_the_range_it_is_drawn_in(language):
    block = language.sample(3, "train", range(2, 8), 3, 32)
    for index, step in enumerate(range(2, 8)):
        one = language.sample(3, "train", range(step, step + 1), 3, 32)
        assert all(np.array_equal(a, b) for a, b in zip(at(block, index), at(one, 0), strict=True))


def test_a_row_does_not_depend_on_the_rows_below_it(language):
    few, many = (language.sample(3, "train", range(2), rows, 32) for rows in (2, 7))
    assert np.array_equal(few.tokens, many.tokens[:, :2])


def test_global_random_state_is_neither_read_nor_written(language):
    first = language.sample(3, "train", range(2), 3, 32)
    np.random.seed(0)
    torch.manual_seed(0)
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()
    assert same(first, Language(language.spec).sample(3, "train", range(2), 3, 32))
    assert np.array_equal(np.random.get_state()[1], numpy_state)
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_seed_stream_step_and_row_draw_apart(language):
    draws = [
        language.sample(seed, stream, range(step, step + 1), 2, 32).tokens[0, row]
        for seed in (0, 1)
        for stream in ("train", "validation")
        for step in (0, 1)
        for row in (0, 1)
    ]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


def test_packing(language):
    s = language.spec
    ids = language.sample(3, "train", range(20), 4, 4 * s.longest).documents.reshape(-1, 4 * s.longest + 1)
    assert (ids[:, 0] == 0).all()
    assert set(np.unique(np.diff(ids, axis=1))) <= {0, 1}
    lengths = [np.diff(np.flatnonzero(np.diff(row, prepend=-1))) for row in ids]  # the last one may be cut
    lengths = np.concatenate(lengths)
    assert set(np.unique(lengths)) == set(range(s.shortest, s.longest + 1))


def test_tokens_are_of_the_class_their_structure_says(language):
    s, first = language.spec, language.first
    rows = language.sample(3, "train", range(10), 4, 64)
    content = rows.tokens < s.content
    attribute = (rows.tokens >= first["attribute"]) & (rows.tokens < first["operator"])
    kinds = rows.structure
    assert content[np.isin(kinds, (Structure.CONTENT, Structure.COPY, Structure.OPERAND, Structure.RESULT))].all()
    assert attribute[np.isin(kinds, (Structure.ATTRIBUTE_FIRST, Structure.ATTRIBUTE_AGAIN))].all()
    assert not (content | attribute)[kinds == Structure.SIGN].any()
    assert rows.tokens.max() < language.vocabulary
    if s.p_name:
        assert set(np.unique(kinds)) == set(Structure)


def test_tables_are_distributions(language):
    for table in (language.bigram, language.topic):
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(1), 1, rtol=1e-12)
    assert (np.sort(language.permutation, 1) == np.arange(language.spec.content)).all()


@pytest.mark.parametrize("name", ["bigram", "topic", "permutation"])
def test_language_seeds_are_languages_of_their_own(name):
    tables = [getattr(Language(LanguageSpec(seed=seed)), name) for seed in range(4)]
    assert len({table.tobytes() for table in tables}) == 4
    assert np.array_equal(tables[2], getattr(Language(LanguageSpec(seed=2)), name))
