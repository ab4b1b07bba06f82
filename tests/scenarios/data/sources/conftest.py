"""The language by its definition, token by token, with no filter: a slow second opinion."""

from types import SimpleNamespace

import numpy as np
import pytest

from trainwreck.scenarios.data.sources.language import Language, LanguageSpec, chain

SPECS = {
    "full": LanguageSpec(),
    "seed 5": LanguageSpec(seed=5),
    "chain": chain(2),
    "noisy": LanguageSpec(seed=1, noise=0.3, topics=3, lookbacks=(2, 4), shortest=5, longest=9, bigram_share=0.2),
}


@pytest.fixture(scope="session", params=SPECS)
def language(request) -> Language:
    return Language(SPECS[request.param])


def _pending(language, prefix):
    """What the tokens of a document so far leave pending: (kind, detail), and the attributes named."""
    s, first = language.spec, language.first
    kind, detail, named = "free", None, {}
    for token in prefix:
        if kind == "name":
            named.setdefault(detail, token)
        if kind == "operator":
            kind, detail = "result", (detail, token)
        elif kind != "free":
            kind, detail = "free", None
        elif token >= first["operator"]:
            kind, detail = "operator", token - first["operator"]
        elif token >= first["name"]:
            kind, detail = "name", token - first["name"]
        elif token >= first["trigger"]:
            kind, detail = "copy", s.lookbacks[token - first["trigger"]]
    return kind, detail, named


def _next(language, prefix):
    """P(next token | document so far, topic), [topics, V], from the docstring's rules."""
    s, first = language.spec, language.first
    kind, detail, named = _pending(language, prefix)
    p = np.zeros((s.topics, language.vocabulary))
    content = slice(0, s.content)
    if kind in ("copy", "result"):
        right = prefix[-detail] if kind == "copy" else language.permutation[detail[0], detail[1]]
        p[:, content] = s.noise / s.content
        p[:, right] += 1 - s.noise
    elif kind == "name":
        start = first["attribute"] + detail * s.attributes
        known = detail in named
        p[:, start : start + s.attributes] = (s.noise if known else 1.0) / s.attributes
        if known:
            p[:, named[detail]] += 1 - s.noise
    elif kind == "operator":
        p[:, content] = 1 / s.content
    else:
        padded = [None, *prefix]  # a trigger comes next; the token after it repeats the one k before that
        copyable = [
            i for i, k in enumerate(s.lookbacks)
            if len(padded) > k - 1 >= 1 and padded[-(k - 1)] is not None and padded[-(k - 1)] < s.content
        ]  # fmt: skip
        left = 1 - s.p_name - s.p_operator - (s.p_trigger if copyable else 0)
        for i in copyable:
            p[:, first["trigger"] + i] = s.p_trigger / len(copyable)
        p[:, first["name"] : first["name"] + s.names] = s.p_name / s.names
        p[:, first["operator"] :] = s.p_operator / s.operators
        share = s.bigram_share if prefix else 0.0
        p[:, content] = left * (1 - share) * language.topic
        if prefix:
            p[:, content] += left * share * language.bigram[prefix[-1]]
    return p


@pytest.fixture(scope="session")
def score():
    """score(language, tokens of one document): nats with the mean and variance to expect, [T] each, and P(topic)."""

    def run(language, document):
        joint = np.full(language.spec.topics, 1 / language.spec.topics)  # P(topic, tokens so far)
        nats, mean, variance = [], [], []
        for t, token in enumerate(document):
            by_topic = _next(language, list(document[:t]))
            np.testing.assert_allclose(by_topic.sum(1), 1, rtol=1e-12)
            p = joint @ by_topic / joint.sum()
            some = p[p > 0]
            nats.append(-np.log(p[token]))
            mean.append(-(some * np.log(some)).sum())
            variance.append((some * np.log(some) ** 2).sum() - mean[-1] ** 2)
            joint = joint * by_topic[:, token]
        return SimpleNamespace(
            nats=np.array(nats), mean=np.array(mean), variance=np.array(variance), topics=joint / joint.sum()
        )

    return run
