"""The source that a configuration names."""

from collections.abc import Callable
from functools import lru_cache

from trainwreck.scenarios.config.settings import DataConfig, Dialect, SourceKind
from trainwreck.scenarios.data.sources.captions import Captions
from trainwreck.scenarios.data.sources.chat import Chat
from trainwreck.scenarios.data.sources.facts import Facts
from trainwreck.scenarios.data.sources.language import (
    Language,
    LanguageSpec,
    chain,
    echo,
    far_echo,
    recall,
    rules,
    walk,
)
from trainwreck.scenarios.data.sources.pairs import Pairs
from trainwreck.scenarios.data.sources.refrain import Refrain
from trainwreck.scenarios.data.sources.speech import Speech
from trainwreck.scenarios.data.sources.tasks import Tasks
from trainwreck.scenarios.data.sources.text import Text, open_text

Source = Language | Text | Chat | Refrain | Pairs | Facts | Speech | Captions | Tasks
SourceKey = tuple[SourceKind, Dialect, int, str]  # runs that agree on it share a source

SPECS: dict[Dialect, Callable[[int], LanguageSpec]] = {
    Dialect.FULL: lambda seed: LanguageSpec(seed=seed),
    Dialect.CHAIN: chain,
    Dialect.ECHO: echo,
    Dialect.RECALL: recall,
    Dialect.FAR_ECHO: far_echo,
    Dialect.RULES: rules,
    Dialect.WALK: walk,
}
OTHERS: dict[Dialect, Callable[[int], Source]] = {
    Dialect.CHAT: Chat,
    Dialect.REFRAIN: Refrain,
    Dialect.PAIRS: Pairs,
    Dialect.FACTS: Facts,
    Dialect.SPEECH: Speech,
    Dialect.CAPTIONS: Captions,
    Dialect.TASKS: Tasks,
}


def source_key(data: DataConfig) -> SourceKey:
    """The part of a configuration that names its source."""
    return data.source, data.dialect, data.language_seed, data.text


@lru_cache(maxsize=16)
def source(key: SourceKey) -> Source:
    """The source that a key names."""
    kind, dialect, seed, text = key
    if kind is SourceKind.TEXT:
        return open_text(text)
    if dialect in OTHERS:
        return OTHERS[dialect](seed)
    return Language(SPECS[dialect](seed))


def end_token(data: DataConfig) -> int | None:
    """The id of the token that ends an answer; None for data without answers."""
    found = source(source_key(data)) if data.dialect is Dialect.CHAT else None
    return found.end if isinstance(found, Chat) else None
