"""Scorecards side by side: a table with ranks, and what may be said of a difference."""

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import (
    BUDGETS,
    EASY_RECALL,
    HEADLINE_BUDGET,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    ONE_LINERS,
    RATE_STEPS,
    SIGNIFICANCE,
)
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.metrics import skill
from trainwreck.evaluation.scoring.metrics.bootstrap import Estimate
from trainwreck.evaluation.scoring.metrics.delay import lead, restricted_delay
from trainwreck.evaluation.scoring.metrics.diagnosis import diagnosed
from trainwreck.evaluation.scoring.metrics.significance import holm, mcnemar, paired_permutation, tied_ranks
from trainwreck.evaluation.scoring.reference import skill_runs
from trainwreck.evaluation.scoring.scorecard import Scorecard


def easy_scenarios(cards: Sequence[Scorecard]) -> list[str]:
    """Scenarios of which every one-liner finds at least 90 % of the runs in time within the headline budget.

    cards: of one profile, the four one-liners among them (InputError without).
    """
    by_name = {card.detector: card for card in cards}
    missing = [name for name in ONE_LINERS if name not in by_name]
    if missing:
        raise InputError(f"cards: {missing[0]!r} is missing; allowed: cards with every one-liner among them")
    recalls = [by_name[name].recall_by_scenario for name in ONE_LINERS]
    return sorted(name for name in recalls[0] if all(recall[name] >= EASY_RECALL for recall in recalls))


def recall_without(card: Scorecard, scenarios: Collection[str]) -> Estimate:
    """Headline recall over the failing runs of other scenarios; NaN where none is left."""
    kept = card.outcomes.failing & ~np.isin(card.outcomes.scenario, list(scenarios))
    return card.baseline.bootstrap.mean(card.detected(str(HEADLINE_BUDGET)), kept)


def table(cards: Sequence[Scorecard], hidden: Collection[str] = ()) -> pd.DataFrame:
    """One row a card, by profile in the order given, then best first.

    Sorted by the headline, in-time recall within the headline budget; then by recall within the
    other budgets, then by W*. `rank` is shared by entries that an exact McNemar test with Holm's
    correction does not tell from the best of their group; oracles, which know the label, and submissions that read
    ahead have none.
    hidden: detectors that are needed to find the easy scenarios but not shown. `.attrs["easy"]`
    holds those scenarios by profile.
    """
    rows, easy = [], {}
    for profile in dict.fromkeys(card.profile for card in cards):
        group = [card for card in cards if card.profile == profile]
        easy[profile] = easy_scenarios(group)
        shown = sorted((card for card in group if card.detector not in hidden), key=_order)
        ranks = _ranks([card for card in shown if ranked(card)])
        rows += [_row(card, ranks.get(card.detector), easy[profile]) for card in shown]
    board = pd.DataFrame(rows)
    if len(board):
        board["rank"] = board["rank"].astype("Int64")
    board.attrs["easy"] = easy
    return board


def ranked(card: Scorecard) -> bool:
    """Whether an entry takes part: it knows no label, and no row before its time."""
    return card.detector not in ORACLES and bool(card.about.get("causal", True))


def compare(first: Scorecard, second: Scorecard) -> dict[str, float]:
    """Holm-adjusted p-values that two cards of the same runs differ, by score.

    Exact McNemar for in-time recall (default and budgets) and top-1 diagnosis; paired permutation
    over twin sets for lead, restricted delay from the onset and W* (headline cost and prevalence).
    """
    if not np.array_equal(first.outcomes.run_id, second.outcomes.run_id):
        raise InputError("cards: measured on different runs; allowed: two cards of one data set")
    points = ["default", *map(str, BUDGETS)]
    p_values = {f"recall_{point}": _recall_differs(first, second, point) for point in points}
    p_values["diagnosis"] = mcnemar(_diagnosed(first), _diagnosed(second))
    differences = {
        "lead": _leads(first) - _leads(second),
        "delay": _delays(first) - _delays(second),
        "skill": _utilities(first) - _utilities(second),
    }
    for name, difference in differences.items():
        p_values[name] = paired_permutation(difference, first.outcomes.cluster)
    return dict(zip(p_values, holm(list(p_values.values())).tolist(), strict=True))


def beside(cards: Sequence[Scorecard], name: str) -> list[dict[str, Any]]:
    """In-time recall of every other entry beside that of one, by profile, the best first.

    For each budget: the other's recall, by how much `name` is ahead, and the p-value of an exact McNemar test with
    Holm's correction for the entries of the profile. Oracles and entries that read ahead are left out. InputError
    where a profile has no card of `name`.
    """
    rows: list[dict[str, Any]] = []
    for profile in dict.fromkeys(card.profile for card in cards):
        group = [card for card in cards if card.profile == profile]
        one = next((card for card in group if card.detector == name), None)
        if one is None:
            raise unknown("detector", name, [card.detector for card in group])
        others = sorted((card for card in group if card is not one and ranked(card)), key=_order)
        found: list[dict[str, Any]] = [{"profile": profile, "detector": card.detector} for card in others]
        for budget in map(str, BUDGETS):
            p_values = holm([_recall_differs(one, card, budget) for card in others])
            for row, card, p in zip(found, others, p_values, strict=True):
                row[f"recall_{budget}"] = card.recall[budget].value
                row[f"ahead_{budget}"] = one.recall[budget].value - card.recall[budget].value
                row[f"p_{budget}"] = float(p)
        rows += found
    return rows


def _order(card: Scorecard) -> tuple[float | str, ...]:
    others = [card.recall[str(budget)].value for budget in BUDGETS if budget != HEADLINE_BUDGET]
    scores = [card.headline.value, *others, card.headline_skill.value]
    return (*(np.inf if np.isnan(value) else -value for value in scores), card.detector)


def _ranks(cards: list[Scorecard]) -> dict[str, int]:
    pairs = list(combinations(range(len(cards)), 2))
    found = [card.detected(str(HEADLINE_BUDGET)) & card.outcomes.failing for card in cards]
    adjusted = dict(zip(pairs, holm([mcnemar(found[i], found[j]) for i, j in pairs]), strict=True))
    ranks = tied_ranks(len(cards), lambda i, j: bool(adjusted[i, j] < SIGNIFICANCE))
    return {card.detector: rank for card, rank in zip(cards, ranks, strict=True)}


def _row(card: Scorecard, rank: int | None, easy: Collection[str]) -> dict[str, object]:
    row: dict[str, object] = {"profile": card.profile, "rank": rank, "detector": card.detector}
    for point, recall in card.recall.items():
        row |= _with_interval(f"recall_{point}", recall)
        row |= _with_interval(f"stopped_{point}", recall.stopped)
        row |= _with_interval(f"stopped_look_alike_{point}", recall.stopped_look_alike)
    row |= _with_interval("recall_without_easy", recall_without(card, easy))
    row |= _with_interval("skill", card.headline_skill)
    row |= _with_interval(f"false_alarms_per_{RATE_STEPS}", card.false_alarm_rate)
    row |= _with_interval("lead", card.lead)
    row |= _with_interval("delay_share", card.delay["from_onset"]["restricted_mean_share"])
    row |= _with_interval("top1", card.diagnosis["cause"]["1"]["macro"])
    row |= _with_interval("top3", card.diagnosis["cause"]["3"]["macro"])
    row |= _with_interval("top1_within_set", card.diagnosis["cause_within_set"]["1"]["macro"])
    row |= _with_interval("top3_within_set", card.diagnosis["cause_within_set"]["3"]["macro"])
    return row | {"crashed": card.counts["crashed"], "update_us": card.cost["update_us"]}


def _with_interval(name: str, estimate: Sequence[Any]) -> dict[str, object]:
    value, low, high = estimate[:3]
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _recall_differs(first: Scorecard, second: Scorecard, point: str) -> float:
    return mcnemar(first.detected(point), second.detected(point))


def _diagnosed(card: Scorecard) -> np.ndarray:
    one = card.outcomes
    return diagnosed(card.detected("default"), one.cause, one.named, 1, card.baseline.unseen)


def _leads(card: Scorecard) -> np.ndarray:
    one = card.outcomes.select(card.outcomes.failing)
    return _shared(lead(one.first, one.onset, one.visible, one.no_return), card.outcomes.failing)


def _delays(card: Scorecard) -> np.ndarray:
    one = card.outcomes.select(card.outcomes.failing)
    return _shared(restricted_delay(one.first, one.onset, one.no_return, one.onset)[1], card.outcomes.failing)


def _utilities(card: Scorecard) -> np.ndarray:
    """Each run's part of U; W* is U on a scale that both detectors share."""
    one = card.outcomes
    failing, negative = one.failing, one.negative
    runs = skill_runs(one)
    parts = np.zeros(len(one))
    parts[failing] = HEADLINE_PREVALENCE * skill.gains(one.first[failing], runs, HEADLINE_COST) / max(1, failing.sum())
    loss = skill.losses(one.first[negative], runs.healthy_last, HEADLINE_COST)
    parts[negative] = -(1.0 - HEADLINE_PREVALENCE) * loss / max(1, negative.sum())
    return parts


def _shared(values: np.ndarray, failing: np.ndarray) -> np.ndarray:
    """Each run's part of the mean over failing runs, [N]. values: [F]."""
    parts = np.zeros(len(failing))
    parts[failing] = values / max(1, len(values))
    return parts
