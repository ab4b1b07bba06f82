"""Scorecards side by side: a table with ranks, and what may be said of a difference."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trainwreck.evaluation.constants import (
    BUDGETS,
    EASY_RECALL,
    HEADLINE_BUDGET,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    MOST_FAILED,
    ONE_LINERS,
    RATE_STEPS,
    SIGNIFICANCE,
    TOP,
)
from trainwreck.evaluation.errors import InputError, unknown
from trainwreck.evaluation.leaderboard.columns import suffix
from trainwreck.evaluation.replay.alarms import CONFINEMENT, OK, confined_text
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.metrics import skill
from trainwreck.evaluation.scoring.metrics.bootstrap import Estimate
from trainwreck.evaluation.scoring.metrics.delay import restricted_delay
from trainwreck.evaluation.scoring.metrics.diagnosis import diagnosed
from trainwreck.evaluation.scoring.metrics.significance import Permutation, holm, tied_ranks
from trainwreck.evaluation.scoring.operating_points import DEFAULT
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


def recall_over(card: Scorecard, masks: Mapping[str, np.ndarray]) -> dict[str, Estimate]:
    """Headline recall over the failing runs under each mask, [N]; NaN where there are none."""
    at = card.at(str(HEADLINE_BUDGET))
    failing = card.outcomes.failing
    return card.baseline.bootstrap.ratios({name: at.mean(at.found, failing & mask) for name, mask in masks.items()})


def recall_without(card: Scorecard, scenarios: Collection[str]) -> Estimate:
    """Headline recall over the failing runs of other scenarios; NaN where none is left."""
    return recall_over(card, {"": _of_others(card, scenarios)})[""]


def _of_others(card: Scorecard, scenarios: Collection[str]) -> np.ndarray:
    return ~np.isin(card.outcomes.scenario, list(scenarios))


def table(cards: Sequence[Scorecard], hidden: Collection[str] = ()) -> pd.DataFrame:
    """One row a card, by profile in the order given, then best first.

    Sorted by the headline, in-time recall within the headline budget; then by recall within the
    other budgets, then by W*. `rank` is shared by entries that a permutation test over scenarios, with Holm's
    correction for the entries from there to here, does not tell from the best of their group (`tied_ranks`), so that
    no entry below moves it; oracles, which know the label, submissions that read ahead, and entries that failed on more
    than a tenth of the runs have none: they are outside of the family that is tested.
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
    """Whether an entry takes part: it knows no label, and no row before its time, and it answered."""
    failed = sum(runs for status, runs in card.statuses.items() if status != OK)
    answered = failed <= MOST_FAILED * sum(card.statuses.values())
    return card.detector not in ORACLES and bool(card.about.get("causal", True)) and answered


def compare(first: Scorecard, second: Scorecard) -> dict[str, float]:
    """Holm-adjusted p-values that two cards of the same runs differ, by score.

    In-time recall at the default and at each budget; diagnosis, lead, delay from the onset and W* within the headline
    budget. Each is a permutation test over scenarios (`significance.Permutation`), with thresholds taken as given.
    """
    if not np.array_equal(first.outcomes.run_id, second.outcomes.run_id):
        raise InputError("cards: measured on different runs; allowed: two cards of one data set")
    differences = {
        f"recall_{point}": _recalls(first, point) - _recalls(second, point) for point in (DEFAULT, *map(str, BUDGETS))
    }
    for name, parts in (("diagnosis", _diagnosed), ("lead", _leads), ("delay", _delays), ("skill", _utilities)):
        differences[name] = parts(first) - parts(second)
    test = _test(first)
    p_values = [test.p_value(difference) for difference in differences.values()]
    return dict(zip(differences, holm(p_values).tolist(), strict=True))


def beside(cards: Sequence[Scorecard], name: str) -> list[dict[str, Any]]:
    """In-time recall of every other entry beside that of one, by profile, the best first.

    For each budget: the other's recall, by how much `name` is ahead, and the p-value of a permutation test over
    scenarios with Holm's correction for the entries of the profile. Entries without a rank are left out (`ranked`).
    InputError where a profile has no card of `name`.
    """
    rows: list[dict[str, Any]] = []
    for profile in dict.fromkeys(card.profile for card in cards):
        group = [card for card in cards if card.profile == profile]
        one = next((card for card in group if card.detector == name), None)
        if one is None:
            raise unknown("detector", name, [card.detector for card in group])
        others = sorted((card for card in group if card is not one and ranked(card)), key=_order)
        found: list[dict[str, Any]] = [{"profile": profile, "detector": card.detector} for card in others]
        test = _test(one)
        for budget in map(str, BUDGETS):
            mine = _recalls(one, budget)
            p_values = holm([test.p_value(mine - _recalls(card, budget)) for card in others])
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
    found = [_recalls(card, str(HEADLINE_BUDGET)) for card in cards]
    test = _test(cards[0]) if cards else None

    def p_value(leader: int, other: int) -> float:
        assert test is not None
        return test.p_value(found[leader] - found[other])

    return {
        card.detector: rank for card, rank in zip(cards, tied_ranks(len(cards), p_value, SIGNIFICANCE), strict=True)
    }


def _row(card: Scorecard, rank: int | None, easy: Collection[str]) -> dict[str, object]:
    row: dict[str, object] = {"profile": card.profile, "rank": rank, "detector": card.detector}
    for point, recall in card.recall.items():
        row |= _with_interval(f"recall_{point}", recall)
        row |= _with_interval(f"stopped_{point}", recall.stopped)
        row |= _with_interval(f"stopped_look_alike_{point}", recall.stopped_look_alike)
    one = card.outcomes
    groups = {
        "without_easy": _of_others(card, easy),
        "seen": one.held_out == "",
        "unseen_cause": one.unseen("cause"),
        "unseen_base": one.unseen("base", "shape"),
    }
    for name, estimate in recall_over(card, groups).items():
        row |= _with_interval(f"recall_{name}", estimate)
    row |= _with_interval("visible_in_time", card.ceiling)
    row |= _with_interval("area", card.area)
    row |= _with_interval("volume", card.volume)
    row |= _with_interval(f"false_alarms_per_{RATE_STEPS}", card.false_alarm_rate)
    for name, at in card.points.items():
        end = suffix(name)
        row |= _with_interval(f"recall_of_visible{end}", at.recall.of_visible)
        row |= _with_interval(f"skill{end}", at.skill[HEADLINE_COST][HEADLINE_PREVALENCE])
        row |= _with_interval(f"lead{end}", at.lead)
        row |= _with_interval(f"delay_share{end}", at.delay["from_onset"]["restricted_mean_share"])
        for k in map(str, TOP):
            row |= _with_interval(f"top{k}{end}", at.diagnosis["cause"][k]["macro"])
            row |= _with_interval(f"top{k}_within_set{end}", at.diagnosis["cause_within_set"][k]["macro"])
    facts = {"crashed": card.counts["crashed"], "update_us": card.cost["update_us"]}
    return row | facts | {"confinement": confined_text(card.about.get(CONFINEMENT))}


def _with_interval(name: str, estimate: Sequence[Any]) -> dict[str, object]:
    value, low, high = estimate[:3]
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _test(card: Scorecard) -> Permutation:
    return Permutation(card.outcomes.subject, card.outcomes.seed)


def _recalls(card: Scorecard, point: str) -> np.ndarray:
    """Each run's part of in-time recall at an operating point, in expectation. [N]"""
    return np.asarray(np.nan_to_num(card.detected(point)) / max(1, card.outcomes.failing.sum()))


def _diagnosed(card: Scorecard) -> np.ndarray:
    one, at = card.outcomes, card.at(str(HEADLINE_BUDGET))
    right = [
        diagnosed(f, one.cause, one.named_at(first), 1, card.baseline.unseen)
        for f, first in zip(at.found, at.firsts, strict=True)
    ]
    return np.asarray(at.expected(np.array(right)) / max(1, one.failing.sum()))


def _leads(card: Scorecard) -> np.ndarray:
    at = card.at(str(HEADLINE_BUDGET))
    return np.asarray(at.expected(at.leads) / max(1, card.outcomes.failing.sum()))


def _delays(card: Scorecard) -> np.ndarray:
    one, at = card.outcomes, card.at(str(HEADLINE_BUDGET))
    shares = np.zeros(at.firsts.shape)
    for share, first in zip(shares, at.firsts, strict=True):
        share[one.failing] = restricted_delay(
            first[one.failing], one.onset[one.failing], one.no_return[one.failing], one.onset[one.failing]
        )[1]
    return np.asarray(at.expected(shares) / max(1, one.failing.sum()))


def _utilities(card: Scorecard) -> np.ndarray:
    """Each run's part of U; W* is U on a scale that both detectors share."""
    one, at = card.outcomes, card.at(str(HEADLINE_BUDGET))
    failing, negative = one.failing, one.negative
    runs = skill_runs(one)
    parts = np.zeros(at.firsts.shape)
    for part, first in zip(parts, at.firsts, strict=True):
        gain = skill.gains(first[failing], runs, HEADLINE_COST)
        loss = skill.losses(first[negative], runs.healthy_last, HEADLINE_COST)
        part[failing] = HEADLINE_PREVALENCE * gain / max(1, failing.sum())
        part[negative] = -(1.0 - HEADLINE_PREVALENCE) * loss / max(1, negative.sum())
    return np.asarray(at.expected(parts))
