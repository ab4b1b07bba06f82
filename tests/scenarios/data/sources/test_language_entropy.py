"""The exact entropy of the language against sums over all topics of whole documents, and against the draws."""

from itertools import pairwise

import numpy as np
import pytest

from trainwreck.scenarios.config.settings import Dialect, replaced
from trainwreck.scenarios.data.batches import entropy_floor, validation
from trainwreck.scenarios.data.sources.language import (
    Language,
    LanguageSpec,
    Structure,
    chain,
    echo,
    far_echo,
    recall,
    walk,
)


def documents(rows):
    """(row, slice) of every document."""
    for row, ids in enumerate(rows.documents.reshape(-1, rows.documents.shape[-1])):
        edges = [0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)]
        yield from ((row, slice(a, b)) for a, b in pairwise(edges))


def flat(array):
    return array.reshape(-1, array.shape[-1])


def test_every_token_costs_what_the_definition_says(language, score):
    rows = language.sample(3, "train", range(2), 4, 64)
    checked = 0
    for row, part in documents(rows):
        direct = score(language, flat(rows.tokens)[row, part]).nats
        np.testing.assert_allclose(flat(rows.nats)[row, part][1:], direct[1:], rtol=1e-9, atol=1e-12)
        assert flat(rows.nats)[row, part][0] == 0  # given
        checked += len(direct)
    assert checked == rows.tokens.size


def test_tokens_are_drawn_from_the_stated_probabilities(language, score):
    """nats less its expectation is a martingale: its sum lies within 4.5 standard deviations of 0, by structure."""
    rows = language.sample(11, "train", range(24), 4, 64)
    kinds = flat(rows.structure)
    excess, variance = np.zeros(len(Structure) + 1), np.zeros(len(Structure) + 1)
    for row, part in documents(rows):
        direct = score(language, flat(rows.tokens)[row, part])
        group = kinds[row, part].copy()
        group[(group == Structure.SIGN)] = Structure.CONTENT  # which of the two comes is part of the draw
        for k in set(group):
            excess[k] += (direct.nats - direct.mean)[group == k].sum()
            variance[k] += direct.variance[group == k].sum()
    seen = variance > 0
    assert seen.sum() >= (1 if language.spec.p_name == 0 else 4)
    assert (np.abs(excess[seen]) < 4.5 * np.sqrt(variance[seen])).all()


def test_topics_are_drawn_evenly(language, score):
    """A document's P(topic) has mean 1 / topics, so its sum lies within 4.5 standard deviations of the count."""
    rows = language.sample(12, "train", range(24), 4, 64)
    posteriors = [score(language, flat(rows.tokens)[row, part]).topics for row, part in documents(rows)]
    share = 1 / language.spec.topics
    deviation = np.sqrt(len(posteriors) * share * (1 - share))  # of one that is certain: the largest there is
    assert (np.abs(np.sum(posteriors, 0) - len(posteriors) * share) < 4.5 * deviation).all()


@pytest.mark.parametrize(
    ("dialect", "make"),
    [
        (Dialect.FULL, LanguageSpec),
        (Dialect.CHAIN, chain),
        (Dialect.ECHO, echo),
        (Dialect.FAR_ECHO, far_echo),
        (Dialect.RECALL, recall),
        (Dialect.WALK, walk),
    ],
)
def test_floor_is_the_mean_over_scored_tokens(dialect, make, tiny, score):
    setup = replaced(tiny, data__dialect=dialect, data__language_seed=4)
    rows = validation(setup)[1]
    language, nats = Language(make(seed=4)), []
    for row, part in documents(rows):
        nats += list(score(language, flat(rows.tokens)[row, part]).nats[1:])
    assert entropy_floor(setup) == pytest.approx(np.mean(nats), rel=1e-9)


def test_floor_of_text_is_not_known(tiny, tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(256)) * 8)
    setup = replaced(tiny, data__source=type(tiny.data.source).TEXT, data__text=str(tmp_path / "a.txt"))
    assert np.isnan(entropy_floor(setup))
