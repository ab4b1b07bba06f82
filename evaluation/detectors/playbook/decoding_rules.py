"""The playbook's rules about tokens that a model writes by itself: whether the cache is right, and if not, how.

Through a right cache a token has the chances that it has where the whole row is read at once, beside whatever rows.
Where it has not, the place from which on tokens are worse tells the faults of a cache apart.
"""

from trainwreck.evaluation.detectors.playbook.evidence import both
from trainwreck.evaluation.detectors.playbook.rules import CACHES, EXPOSURE, Rule, Seen

APART = 0.05  # nats between chances that are the same
WORSE = 0.3  # nats over the loss on given tokens


def _others_matter(s: Seen) -> float:
    return s.decoded.beside / APART


def _cache_is_off(s: Seen) -> float:
    return 0.0 if s.decoded.beside >= APART else s.decoded.cache / APART


def _off_at_once(s: Seen) -> float:
    return both(_cache_is_off(s), s.decoded.first / WORSE)


def _off_early(s: Seen) -> float:
    return 0.0 if s.decoded.first >= WORSE else both(_cache_is_off(s), s.decoded.early / WORSE)


def _off_late(s: Seen) -> float:
    return 0.0 if s.decoded.early >= WORSE else both(_cache_is_off(s), s.decoded.late / WORSE)


def _goes_astray(s: Seen) -> float:
    return 0.0 if s.decoded.cache >= APART else s.decoded.late - s.decoded.early


DECODING_RULES: tuple[Rule, ...] = (
    Rule(
        "kv_cache_leak", 1, _others_matter,
        "a written token's chances hang on the rows beside it: a row reads what another one has cached",
        CACHES, (), ("neighbour_gap",),
    ),
    Rule(
        "kv_cache_stale", 1, _off_at_once,
        "through the cache tokens have other chances than without it, from the first one on: the prompt's part is old",
        CACHES, ("kv_cache_off_by_one",), ("cache_gap",),
    ),
    Rule(
        "kv_cache_off_by_one", 1, _off_early,
        "through the cache the first token is right and the next are not: the index is wrong where writing begins",
        CACHES, ("kv_cache_truncated", "kv_cache_stale"), ("cache_gap",),
    ),
    Rule(
        "kv_cache_truncated", 1, _off_late,
        "through the cache the first tokens are right and late ones are not: it does not hold the whole text",
        CACHES, ("kv_cache_off_by_one",), ("cache_gap",),
    ),
    Rule(
        "teacher_forcing_mismatch", 1, _goes_astray,
        "the cache is right, and the more tokens the model has written the worse they are, by a nat and more",
        EXPOSURE, (), ("free_late_loss",),
    ),
)  # fmt: skip
