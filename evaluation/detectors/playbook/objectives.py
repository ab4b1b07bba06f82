"""What the rows so far say of runs of other objectives and of routers; NaN where they have nothing of theirs."""

import math
from collections import deque

from trainwreck.evaluation.detectors.base import Row
from trainwreck.evaluation.detectors.streaming import number

LASTING = 3  # evaluations of a row
REWARDED_ROWS = 8
RIGHT = 0.05  # under the best share of right passages, which still counts as it


class Decoded:
    """Of tokens that a model wrote: losses over that on given ones, and what cache and rows beside do; nats."""

    def __init__(self) -> None:
        self.first = self.early = self.late = self.cache = self.beside = math.nan

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        forced = number(row.get("forced_loss"))
        self.first = number(row.get("free_first_loss")) - forced
        self.early = number(row.get("free_early_loss")) - forced
        self.late = number(row.get("free_late_loss")) - forced
        self.cache = number(row.get("cache_gap"))
        self.beside = number(row.get("neighbour_gap"))


class Preferred:
    """Of pairs of answers: the loss, and log-probabilities over the reference's, in nats."""

    def __init__(self) -> None:
        self.loss = self.margin = self.chosen = math.nan

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        self.loss, self.margin = number(row.get("dpo_loss")), number(row.get("margin"))
        self.chosen = number(row.get("chosen_logp"))


class Routed:
    """Of experts: the balance loss as it is computed, 1 at even loads, and the share of tokens that are dropped."""

    def __init__(self) -> None:
        self.balance = self.dropped = math.nan
        self.seen = False

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        self.balance, self.dropped = number(row.get("balance_loss")), number(row.get("expert_dropped"))
        self.seen |= math.isfinite(self.balance)


class Retrieved:
    """Of passages that a model finds: how far their share of right ones fell, and how old the index is.

    lost: the best share so far less the latest. older: the index's age over the largest age at which the share was
    within `RIGHT` of the best so far; an age under a step counts as one.
    """

    def __init__(self) -> None:
        self.lost = self.older = math.nan
        self.best, self.good_age, self.seen = -math.inf, 1.0, False

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        share, age = number(row.get("hit_rate")), number(row.get("index_age"))
        if math.isnan(share) or math.isnan(age):
            return
        self.best, self.seen = max(self.best, share), True
        self.lost, self.older = self.best - share, age / self.good_age
        if self.lost <= RIGHT:
            self.good_age = max(self.good_age, age)


class Denoised:
    """Of a model that fills in masked tokens, at its evaluations.

    raw: evaluations in a row at which the evaluated loss is exactly that of the raw weights, after it had been
    another one. clean: the loss of nearly clean rows over that of the noisiest, over the least that it was, the least
    of the last `LASTING` evaluations. broken: the same of the share of sampled tokens that break rules. broken_more:
    that share less its least, the least of the last evaluations.
    """

    def __init__(self) -> None:
        self.clean = self.broken = self.broken_more = math.nan
        self.raw, self.averaged = 0, False
        self.least_clean = self.least_broken = math.inf
        self.recent: deque[tuple[float, float, float]] = deque(maxlen=LASTING)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        raw, evaluated = number(row.get("raw_loss")), number(row.get("validation_loss"))
        early, late = number(row.get("denoise_early")), number(row.get("denoise_late"))
        wrong = number(row.get("sample_violations"))
        if math.isfinite(raw) and math.isfinite(evaluated):
            self.averaged |= raw != evaluated
            self.raw = self.raw + 1 if raw == evaluated and self.averaged else 0
        if not (early > 0.0 and late > 0.0 and math.isfinite(early / late) and wrong >= 0.0):
            return
        self.least_clean = min(self.least_clean, early / late)
        self.least_broken = min(self.least_broken, wrong)
        share = wrong / self.least_broken if self.least_broken > 0.0 else math.nan
        self.recent.append((early / late / self.least_clean, share, wrong - self.least_broken))
        if len(self.recent) == LASTING:
            self.clean, self.broken, self.broken_more = (min(values) for values in zip(*self.recent, strict=True))


class Rewarded:
    """Of answers that a model draws and is rewarded for; all are means of `REWARDED_ROWS` rows.

    kl, clipped: divergence from the reference in nats a token, and share of tokens past the clip. alike: share of
    groups whose rewards have no variance, NaN where it is not logged. spread: of the rows' rewards, largest less least.
    entropy_risen: nats over its first level. kl_left: kl over its largest level. lost: reward under its highest level.
    """

    def __init__(self) -> None:
        self.kl = self.clipped = self.alike = self.spread = math.nan
        self.entropy_risen = self.kl_left = self.lost = math.nan
        self.first_entropy, self.most_kl, self.most_reward = math.nan, 0.0, -math.inf
        self.recent: deque[tuple[float, ...]] = deque(maxlen=REWARDED_ROWS)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        values = tuple(number(row.get(name)) for name in ("kl", "clip_share", "policy_entropy", "reward"))
        if not all(map(math.isfinite, values)):
            return
        self.recent.append((*values, number(row.get("groups_without_variance"))))
        if len(self.recent) < REWARDED_ROWS:
            return
        columns = list(zip(*self.recent, strict=True))
        self.kl, self.clipped, entropy, reward, self.alike = (sum(column) / REWARDED_ROWS for column in columns)
        self.spread = max(columns[3]) - min(columns[3])
        self.first_entropy = entropy if math.isnan(self.first_entropy) else self.first_entropy
        self.entropy_risen = entropy - self.first_entropy
        self.most_kl, self.most_reward = max(self.most_kl, self.kl), max(self.most_reward, reward)
        self.kl_left = self.kl / self.most_kl if self.most_kl > 0.0 else math.nan
        self.lost = self.most_reward - reward


class Criticised:
    """Of a critic that shares weights with its policy; both are of means of `REWARDED_ROWS` rows.

    weighed: the loss over the value loss. norm_risen: the gradient norm over its least.
    """

    def __init__(self) -> None:
        self.weighed = self.norm_risen = math.nan
        self.least_norm = math.inf
        self.recent: deque[tuple[float, ...]] = deque(maxlen=REWARDED_ROWS)

    def see(self, row: Row) -> None:
        """Take in a row, whatever it holds."""
        values = tuple(number(row.get(name)) for name in ("loss", "value_loss", "grad_norm"))
        if not all(map(math.isfinite, values)):
            return
        self.recent.append(values)
        if len(self.recent) < REWARDED_ROWS:
            return
        loss, missed, norm = (sum(column) / REWARDED_ROWS for column in zip(*self.recent, strict=True))
        self.least_norm = min(self.least_norm, norm)
        self.weighed = loss / missed if missed > 0.0 else math.nan
        self.norm_risen = norm / self.least_norm if self.least_norm > 0.0 else math.nan
