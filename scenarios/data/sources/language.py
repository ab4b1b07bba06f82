"""A language that depends on every part of a transformer, with its entropy known at every token.

A document keeps one hidden topic. Where nothing is pending, the next token is one of

    position trigger  k      the token after it repeats the one k positions before that  (RoPE)
    name              n      the token after it is n's attribute in this document: drawn at the first
                             mention, the same at every later one                (attention, masks)
    operator          o      then any content token c, then o's permutation of c           (MLP)
    content                  half from the previous token, half from the topic (embedding, context)

    ... w3 w9 K3 w3 w7 NAME1 a4 w2 OP5 w8 w1 w3 NAME1 a4 ...

Pending tokens are replaced by a random one of their class five times in a hundred. What is pending
follows from the tokens alone; only the topic is hidden, and a forward filter over the topics gives
the exact probability of every token given its document so far. Nothing marks where a document
begins: only the document mask tells the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from trainwreck.kernels.random import generator


class Structure(IntEnum):
    """What a token of the language is, so that a loss can be split by what it needs."""

    CONTENT = 0
    COPY = 1
    ATTRIBUTE_FIRST = 2
    ATTRIBUTE_AGAIN = 3
    OPERAND = 4
    RESULT = 5
    SIGN = 6  # a trigger, name or operator: when one comes is chance


@dataclass(frozen=True)
class LanguageSpec:
    """Sizes and probabilities of the language."""

    seed: int = 0
    content: int = 28
    names: int = 3
    attributes: int = 6  # of each name
    operators: int = 8
    lookbacks: tuple[int, ...] = (3, 5, 8)
    topics: int = 6
    p_trigger: float = 0.17
    p_name: float = 0.27
    p_operator: float = 0.17
    noise: float = 0.05
    bigram_share: float = 0.5
    shortest: int = 16
    longest: int = 48
    sharpness: float = 1.0  # power that the bigram probabilities are raised to

    @property
    def vocabulary(self) -> int:
        """Tokens the language can emit: content, triggers, names, attributes, operators."""
        return self.content + len(self.lookbacks) + self.names * (1 + self.attributes) + self.operators


def chain(seed: int) -> LanguageSpec:
    """A language of content alone, nine tenths of it from the previous token: easy without attention."""
    return LanguageSpec(seed=seed, p_trigger=0.0, p_name=0.0, p_operator=0.0, bigram_share=0.9)


def recall(seed: int) -> LanguageSpec:
    """Short documents in which every other free token is a name, to be followed by its attribute."""
    return LanguageSpec(seed=seed, p_trigger=0.0, p_name=0.5, p_operator=0.0, bigram_share=0.9, shortest=8, longest=24)


def echo(seed: int) -> LanguageSpec:
    """A chain in which four in ten free tokens are triggers: the next token repeats the one three back."""
    return LanguageSpec(seed=seed, lookbacks=(3,), p_trigger=0.4, p_name=0.0, p_operator=0.0, bigram_share=0.9)


def far_echo(seed: int) -> LanguageSpec:
    """Documents of 33 tokens; triggers repeat the token two back and, where there is one, the one sixteen back."""
    return LanguageSpec(
        seed=seed, lookbacks=(2, 16), p_trigger=0.5, p_name=0.0, p_operator=0.0, bigram_share=0.9, shortest=33,
        longest=33,
    )  # fmt: skip


def rules(seed: int) -> LanguageSpec:
    """Nearly every free token is one of twelve operators; content is drawn evenly, or made by the operator's rule."""
    return LanguageSpec(seed=seed, content=16, operators=12, p_trigger=0.0, p_name=0.0, p_operator=0.95)


def walk(seed: int) -> LanguageSpec:
    """Documents of 17 tokens of a dozen, each but the first drawn by the token before it alone: a Markov chain."""
    return LanguageSpec(
        seed=seed, content=12, p_trigger=0.0, p_name=0.0, p_operator=0.0, bigram_share=1.0, shortest=17, longest=17,
        sharpness=1.5,
    )  # fmt: skip


@dataclass
class Rows:
    """Packed rows of tokens with what is true of them, each [..., T + 1].

    nats is -ln p(token | its document so far); the first token of a document counts as given.
    """

    tokens: np.ndarray
    documents: np.ndarray
    nats: np.ndarray
    structure: np.ndarray


@dataclass(frozen=True)
class Language:
    """Samples rows and scores them exactly."""

    spec: LanguageSpec = field(default_factory=LanguageSpec)

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.spec.vocabulary

    @cached_property
    def first(self) -> dict[str, int]:
        """First id of each class."""
        s = self.spec
        trigger = s.content
        name = trigger + len(s.lookbacks)
        attribute = name + s.names
        return {
            "trigger": trigger,
            "name": name,
            "attribute": attribute,
            "operator": attribute + s.names * s.attributes,
        }

    @cached_property
    def bigram(self) -> np.ndarray:
        """P(content | previous token), [V, content]: four successors with .7, .1, .1, .1."""
        s = self.spec
        draw = generator(s.seed, "language/bigram")
        table = np.zeros((s.vocabulary, s.content))
        for row in table:
            row[draw.choice(s.content, 4, replace=False)] = (0.7, 0.1, 0.1, 0.1)
        if s.sharpness != 1.0:
            table = table**s.sharpness
            table = table / table.sum(1, keepdims=True)
        return table

    @cached_property
    def topic(self) -> np.ndarray:
        """P(content | topic), [topics, content]: .8 on four favourites, .2 on a Zipf tail."""
        s = self.spec
        draw = generator(s.seed, "language/topic")
        tail = np.arange(1, s.content + 1) ** -1.2
        table = np.empty((s.topics, s.content))
        for row in table:
            row[:] = 0.2 * draw.permutation(tail / tail.sum())
            row[draw.choice(s.content, 4, replace=False)] += 0.2
        return table

    @cached_property
    def permutation(self) -> np.ndarray:
        """The content token that operator o makes of operand c, [operators, content]."""
        s = self.spec
        draw = generator(s.seed, "language/operator")
        return np.stack([draw.permutation(s.content) for _ in range(s.operators)])

    def sample(self, seed: int, stream: str, steps: range, rows: int, context: int) -> Rows:
        """Rows for a range of steps, each array [S, B, T + 1]; row b of step s has its own draws."""
        return self.sample_together([(seed, steps)], stream, rows, context)[0]

    def sample_together(self, wanted: Sequence[tuple[int, range]], stream: str, rows: int, context: int) -> list[Rows]:
        """`sample` of each seed and range of steps, drawn at once: the same rows, in less time."""
        places = [(seed, step) for seed, steps in wanted for step in steps]
        uniform = np.stack([generator(seed, stream, step).random((rows, context + 1, 4)) for seed, step in places])
        flat = _Sampler(self, uniform.reshape(-1, context + 1, 4)).run()
        ends = np.cumsum([len(steps) for _, steps in wanted])
        whole = [x.reshape(-1, rows, context + 1) for x in (flat.tokens, flat.documents, flat.nats, flat.structure)]
        return [Rows(*(x[end - len(steps) : end] for x in whole)) for end, (_, steps) in zip(ends, wanted, strict=True)]


FREE, COPY, NAME, OPERAND, RESULT = range(5)  # what is pending, and how the next token is made


class _Sampler:
    """All rows advance together, one position at a time."""

    def __init__(self, language: Language, uniform: np.ndarray) -> None:
        self.language, self.spec = language, language.spec
        self.uniform = uniform
        self.count, self.length = uniform.shape[:2]
        shape = (self.count, self.length)
        self.tokens = np.zeros(shape, np.int64)
        self.documents = np.zeros(shape, np.int64)
        self.nats = np.zeros(shape)
        self.structure = np.zeros(shape, np.int8)
        self.left = np.zeros(self.count, np.int64)  # tokens left in the document
        self.age = np.zeros(self.count, np.int64)  # tokens of the document so far
        self.document = np.full(self.count, -1)
        self.hidden = np.zeros(self.count, np.int64)  # the topic
        self.belief = np.full((self.count, self.spec.topics), 1.0 / self.spec.topics)
        self.pending = np.full(self.count, FREE)
        self.detail = np.zeros(self.count, np.int64)  # look-back, name or operator that is pending
        self.assigned = np.full((self.count, self.spec.names), -1)
        cumulative = np.cumsum(language.topic, 1)
        self.topic_cdf = cumulative / cumulative[:, -1:]
        cumulative = np.cumsum(language.bigram, 1)
        self.bigram_cdf = cumulative / cumulative[:, -1:]

    def run(self) -> Rows:
        for t in range(self.length):
            self._begin_documents(t)
            u = self.uniform[:, t]
            for kind, emit in enumerate((self._free, self._copy, self._attribute, self._operand, self._result)):
                rows = np.flatnonzero(self.now == kind)
                if rows.size:
                    emit(t, rows, u[rows])
            self.documents[:, t] = self.document
            self.nats[self.age == 0, t] = 0.0
            self.left -= 1
            self.age += 1
        return Rows(self.tokens, self.documents, self.nats, self.structure)

    def _begin_documents(self, t: int) -> None:
        s = self.spec
        new = np.flatnonzero(self.left == 0)
        u = self.uniform[new, t, 3]
        span = s.longest - s.shortest + 1
        draw = u * span * s.topics
        self.left[new] = s.shortest + (draw // s.topics).astype(np.int64)
        self.hidden[new] = (draw % s.topics).astype(np.int64)
        self.age[new] = 0
        self.document[new] += 1
        self.belief[new] = 1.0 / s.topics
        self.pending[new] = FREE
        self.assigned[new] = -1
        self.now = self.pending.copy()

    def _emit(
        self, t: int, rows: np.ndarray, token: np.ndarray, p: np.ndarray | float, what: Structure | np.ndarray
    ) -> None:
        self.tokens[rows, t] = token
        self.nats[rows, t] = -np.log(p)
        self.structure[rows, t] = what

    def _free(self, t: int, rows: np.ndarray, u: np.ndarray) -> None:
        s, first = self.spec, self.language.first
        ok = np.stack([self._can_copy(t, rows, k) for k in s.lookbacks], 1)
        choices = ok.sum(1)
        p_trigger = np.where(choices > 0, s.p_trigger, 0.0)
        edge = p_trigger + s.p_name, p_trigger + s.p_name + s.p_operator

        pick = np.flatnonzero(u[:, 0] < p_trigger)
        if pick.size:
            rank = (u[pick, 1] * choices[pick]).astype(np.int64)
            which = (ok[pick].cumsum(1) > rank[:, None]).argmax(1)
            self._emit(t, rows[pick], first["trigger"] + which, s.p_trigger / choices[pick], Structure.SIGN)
            self._expect(rows[pick], COPY, np.asarray(s.lookbacks)[which])
        pick = np.flatnonzero((u[:, 0] >= p_trigger) & (u[:, 0] < edge[0]))
        if pick.size:
            which = (u[pick, 1] * s.names).astype(np.int64)
            self._emit(t, rows[pick], first["name"] + which, s.p_name / s.names, Structure.SIGN)
            self._expect(rows[pick], NAME, which)
        pick = np.flatnonzero((u[:, 0] >= edge[0]) & (u[:, 0] < edge[1]))
        if pick.size:
            which = (u[pick, 1] * s.operators).astype(np.int64)
            self._emit(t, rows[pick], first["operator"] + which, s.p_operator / s.operators, Structure.SIGN)
            self._expect(rows[pick], OPERAND, which)
        pick = np.flatnonzero(u[:, 0] >= edge[1])
        if pick.size:
            self._content(t, rows[pick], u[pick], 1.0 - edge[1][pick])

    def _content(self, t: int, rows: np.ndarray, u: np.ndarray, p_branch: np.ndarray) -> None:
        s, language = self.spec, self.language
        previous = self.tokens[rows, t - 1]
        share = np.where(self.age[rows] > 0, s.bigram_share, 0.0)  # the first token has no previous
        by_bigram = (self.bigram_cdf[previous] <= u[:, 2, None]).sum(1)
        by_topic = (self.topic_cdf[self.hidden[rows]] <= u[:, 2, None]).sum(1)
        token = np.where(u[:, 1] < share, by_bigram, by_topic)
        likelihood = share[:, None] * language.bigram[previous, token][:, None]
        likelihood = likelihood + (1 - share)[:, None] * language.topic[:, token].T
        joint = self.belief[rows] * likelihood
        predictive = joint.sum(1)
        self._emit(t, rows, token, p_branch * predictive, Structure.CONTENT)
        self.belief[rows] = joint / predictive[:, None]

    def _copy(self, t: int, rows: np.ndarray, u: np.ndarray) -> None:
        self._noisy(t, rows, u, self.tokens[rows, t - self.detail[rows]], Structure.COPY)
        self._expect(rows, FREE)

    def _attribute(self, t: int, rows: np.ndarray, u: np.ndarray) -> None:
        s, name = self.spec, self.detail[rows]
        known = self.assigned[rows, name]
        drawn = (u[:, 1] * s.attributes).astype(np.int64)
        again = known >= 0
        chosen = np.where(again & (u[:, 0] >= s.noise), known, drawn)
        p_again = s.noise / s.attributes + (1 - s.noise) * (chosen == known)
        what = np.where(again, Structure.ATTRIBUTE_AGAIN, Structure.ATTRIBUTE_FIRST)
        token = self.language.first["attribute"] + name * s.attributes + chosen
        self._emit(t, rows, token, np.where(again, p_again, 1.0 / s.attributes), what)
        self.assigned[rows, name] = np.where(again, known, chosen)
        self._expect(rows, FREE)

    def _operand(self, t: int, rows: np.ndarray, u: np.ndarray) -> None:
        token = (u[:, 1] * self.spec.content).astype(np.int64)
        self._emit(t, rows, token, 1.0 / self.spec.content, Structure.OPERAND)
        self._expect(rows, RESULT, self.detail[rows])

    def _result(self, t: int, rows: np.ndarray, u: np.ndarray) -> None:
        result = self.language.permutation[self.detail[rows], self.tokens[rows, t - 1]]
        self._noisy(t, rows, u, result, Structure.RESULT)
        self._expect(rows, FREE)

    def _noisy(self, t: int, rows: np.ndarray, u: np.ndarray, right: np.ndarray, what: Structure) -> None:
        s = self.spec
        token = np.where(u[:, 0] < s.noise, (u[:, 1] * s.content).astype(np.int64), right)
        self._emit(t, rows, token, s.noise / s.content + (1 - s.noise) * (token == right), what)

    def _expect(self, rows: np.ndarray, pending: int, detail: np.ndarray | int = 0) -> None:
        self.pending[rows] = pending
        self.detail[rows] = detail

    def _can_copy(self, t: int, rows: np.ndarray, k: int) -> np.ndarray:
        """A trigger at t makes token t + 1 repeat token t + 1 - k: content, of the same document."""
        source = t + 1 - k
        if source < 0:
            return np.zeros(rows.size, bool)
        inside = self.age[rows] + 1 >= k
        can: np.ndarray = inside & (self.tokens[rows, source] < self.spec.content)
        return can
