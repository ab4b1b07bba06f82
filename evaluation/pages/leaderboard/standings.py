"""The leaderboard to look at: one HTML page that needs nothing else, made from the scores alone."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from trainwreck.evaluation.constants import (
    COSTS,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    PREVALENCES,
)
from trainwreck.evaluation.intervals import interval_text, number_text
from trainwreck.evaluation.leaderboard.columns import (
    HEADLINE,
    OPERATING,
    TABLES,
    Table,
    ceilings,
    cells,
    claim_text,
    having,
)
from trainwreck.evaluation.leaderboard.shortcuts import SHORTCUTS
from trainwreck.evaluation.pages.leaderboard.charts import DASHES, of_entry, overview
from trainwreck.evaluation.pages.templates import template
from trainwreck.evaluation.replay.alarms import CONFINEMENT, confined_text
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.equivalence_sets import Sets, shipped
from trainwreck.evaluation.scoring.metrics.diagnosis import NOT_IN_TIME, NOT_NAMED, allowed

BLIND_ENTRIES = ("never", "always", "clock", "periodic", "random", "step_fraction")
NOT_DETECTORS = (*BLIND_ENTRIES, *SHORTCUTS)
MATRIX = 16  # causes up to which a confusion matrix is drawn whole
Card = dict[str, Any]


def page(scores: dict[str, Any], made: dict[str, Any]) -> str:
    """The page as text. scores: `board.standing`. made: `board_files.made`."""
    profiles = list(dict.fromkeys(row["profile"] for row in scores["rows"]))
    panes = [pane(profile, place, scores) for place, profile in enumerate(profiles)]
    outline = template(
        "trainwreck.evaluation.pages.leaderboard", "standings.html.jinja", number=number_text, breakable=breakable
    )
    return outline.render(made=made, panes=panes, dashes=DASHES)


def pane(profile: str, place: int, scores: dict[str, Any]) -> dict[str, Any]:
    """Everything of one observation profile. place: its number, which makes anchors of its own."""
    cards = {card["detector"]: card for card in scores["cards"] if card["profile"] == profile}
    rows = [row for row in scores["rows"] if row["profile"] == profile]
    tables = [table._replace(columns=having(rows, table.columns)) for table in TABLES]
    entries = [_entry(f"d{place}-{i}", row, cards[row["detector"]], tables) for i, row in enumerate(rows)]
    taking_part = [entry for entry in entries if entry["rank"] is not None]
    others = [entry for entry in entries if entry["rank"] is None]
    best = [entry for entry in taking_part if entry["detector"] not in NOT_DETECTORS][: len(DASHES)]
    for i, entry in enumerate(best):
        entry["style"] = i
    first = entries[0]["card"]
    easy = scores["easy"][profile]
    return {
        "profile": profile,
        "place": place,
        "counts": first["counts"],
        "notes": first["notes"],
        "ceilings": ceilings(rows),
        "tables": tables,
        "easy": easy,
        "groups": [(rank, list(group)) for rank, group in groupby(taking_part, key=lambda entry: entry["rank"])],
        "others": others,
        "best": best,
        "charts": overview([entry for entry in taking_part if entry["detector"] not in NOT_DETECTORS], profile),
        "families": _families(entries),
        "scenarios": _scenarios(taking_part, easy),
        "details": [_detail(entry, profile) for entry in entries],
    }


def breakable(name: str) -> Markup:
    """A name that may be broken after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def heat(value: float | None) -> int | None:
    """Step of the colour scale, 0 to 10."""
    return None if value is None else round(10 * min(max(value, 0.0), 1.0))


def _entry(anchor: str, row: dict[str, Any], card: Card, tables: Sequence[Table]) -> dict[str, Any]:
    return {
        "anchor": anchor,
        "rank": row["rank"],
        "detector": row["detector"],
        "kind": _kind(row["detector"], card),
        "card": card,
        "style": "other",
        "bars": {table.point: _bar(row, table.columns[0].key) for table in tables},
        "cells": {table.point: cells(row, table.columns) for table in tables},
        "crashed": row["crashed"],
        "claim": claim_text(row),
        "confined": _confined(row.get("confinement")),
        "runs": card["counts"]["runs"],
    }


def _confined(text: str | None) -> str:
    """In a word or two, whether an entry's process was kept from the rest of the machine; its panel says by what."""
    if not text:
        return ""
    return (
        "not confined" if text.startswith("not at all") else "confined in part" if "; without" in text else "confined"
    )


def _bar(row: dict[str, Any], key: str) -> list[float] | None:
    """Low end, value and high end of an interval between 0 and 1, as places on a bar 100 wide."""
    ends = [row[f"{key}{end}"] for end in ("_low", "", "_high")]
    return None if None in ends else [round(4 + 92 * min(max(x, 0.0), 1.0), 1) for x in ends]


def _kind(detector: str, card: Card) -> str:
    if detector in ORACLES:
        return "knows the label"
    if not card["about"].get("causal", True):
        return "reads ahead"
    if detector in SHORTCUTS:
        return "uses a shortcut"
    return "ignores its inputs" if detector in BLIND_ENTRIES else ""


def _families(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Recall by family and by what was held out: heads with their runs, and a row of cells an entry."""
    parts = entries[0]["card"]["breakdown"]
    heads = [(part, name, facts["exposure"]) for part in ("family", "held_out") for name, facts in parts[part].items()]
    rows = []
    for entry in entries:
        shares = [entry["card"]["breakdown"][part][name] for part, name, _ in heads]
        rows.append((entry, [{"text": _text(share), "heat": heat(share["value"])} for share in shares]))
    return {"heads": heads, "rows": rows}


def _scenarios(entries: Sequence[dict[str, Any]], easy: Sequence[str]) -> dict[str, Any]:
    """Recall by scenario, and look-alikes stopped: a row a scenario, a column an entry."""
    if not entries:
        return {"entries": [], "failing": [], "look_alike": []}

    def lines(part: str) -> list[dict[str, Any]]:
        found = []
        for name, facts in entries[0]["card"]["breakdown"][part].items():
            shares = [entry["card"]["breakdown"][part][name] for entry in entries]
            shown = [
                {
                    "text": f"{share['value']:.0%}"[:-1],
                    "what": f"{_count(share['events'])} of {share['exposure']}, {_text(share, '.0%')}",
                    "heat": heat(share["value"]),
                }
                for share in shares
            ]
            found.append({"name": name, "runs": facts["exposure"], "easy": name in easy, "cells": shown})
        return found

    return {"entries": entries, "failing": lines("scenario"), "look_alike": lines("look_alike")}


def _detail(entry: dict[str, Any], profile: str) -> dict[str, Any]:
    """What stands in an entry's own panel."""
    card = entry["card"]
    return {
        "entry": entry,
        "card": card,
        "about": _about(card),
        "tables": [table for table in TABLES if table.point in OPERATING],
        "points": [(name, [shown(card["points"][point]) for point in OPERATING]) for name, shown in POINT_ROWS.items()],
        "skill": _skill(card),
        "monitor": _text(card["monitor_recall"]),
        "rate": _text(card["false_alarm_rate"], ".1f"),
        "stops": [(kind, facts["exposure"], _text(facts, ".0%")) for kind, facts in card["false_stop"].items()],
        "diagnosis": _diagnosis(card),
        "confusion": _confusion(card, shipped(profile)),
        "charts": of_entry(entry, profile),
    }


def _about(card: Card) -> str:
    """What an entry says of itself, as sentences."""
    about, cost = card["about"], card["cost"]
    parts = [
        (about.get("rule"), "{}"),
        (about.get("source"), "Source: {}"),
        (about.get("blind_spots"), "Blind to: {}"),
        (", ".join(about.get("signals", ())), "Reads {}"),
        (about.get("version"), "Version {}"),
        (about.get("licence"), "Licence {}"),
        (card["track"], "Track: {}"),
        (confined_text(about.get(CONFINEMENT)), "In a process of its own, confined by {}"),
        (f"{number_text(cost['update_us'], '.1f')} \u00b5s an update, {cost['state_bytes']} bytes of state", "{}"),
    ]
    sentences = [form.format(str(text).rstrip(".")) for text, form in parts if text]
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def threshold_text(levels: Sequence[Mapping[str, Any]] | None) -> str:
    """A threshold in words. levels: as a scorecard has them, the highest first; None is the detector's own alarm.

    >>> threshold_text([{"level": "3.2", "chance": 0.7}, {"level": "2.9", "chance": 0.3}])
    'score over 3.2 or, in 30 % of runs, over 2.9'
    >>> threshold_text([{"level": "inf", "chance": 0.5}, {"level": "0.9999999999999999", "chance": 0.5}])
    'in 50 % of runs, score of 1 or more'
    """
    if levels is None:
        return "its own alarm"
    parts, left, above = [], 1.0, math.inf
    for one in levels:
        level = float(one["level"])
        if level < math.inf:
            # A level just below a number stops at that number too.
            inclusive = math.nextafter(level, math.inf) + 0.0  # no -0
            at = inclusive == above or len(repr(inclusive)) < len(one["level"])
            what = "any score" if level == -math.inf else f"of {inclusive:.4g} or more" if at else f"over {level:.4g}"
            parts.append(what if left > 1.0 - 1e-9 else f"in {100 * left:.2g} % of runs, {what}")
        left, above = left - one["chance"], level
    if not parts:
        return "never" if levels else "none: no calibration runs"
    first, *rest = parts
    where, comma, what = first.rpartition(", ")
    first = f"{where}{comma}{what}" if what == "any score" else f"{where}{comma}score {what}"
    return " or, ".join([first, *rest])


POINT_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "alarm": lambda point: threshold_text(point["recall"]["threshold"]),
    "in-time recall": lambda point: _text(point["recall"]),
    "of visible": lambda point: _text(point["recall"]["of_visible"]),
    "healthy stopped": lambda point: _text(point["recall"]["stopped"], ".0%"),
    "look-alikes stopped": lambda point: _text(point["recall"]["stopped_look_alike"], ".0%"),
    "steps from onset to alarm": lambda point: _text(point["delay"]["from_onset"]["restricted_mean_steps"], ".1f"),
    "steps from visible to alarm": lambda point: _text(point["delay"]["from_visible"]["restricted_mean_steps"], ".1f"),
    "lead": lambda point: _text(point["lead"]),
    "W*": lambda point: _text(point["skill"][HEADLINE_COST][str(HEADLINE_PREVALENCE)]),
    "cause, top 1": lambda point: _text(point["diagnosis"]["cause"]["1"]["macro"]),
    "cause, top 3": lambda point: _text(point["diagnosis"]["cause"]["3"]["macro"]),
    "within set, top 1": lambda point: _text(point["diagnosis"]["cause_within_set"]["1"]["macro"]),
    "within set, top 3": lambda point: _text(point["diagnosis"]["cause_within_set"]["3"]["macro"]),
}
"""What an entry's panel has at each operating point; a miss counts to the point of no return."""


def _skill(card: Card) -> dict[str, Any]:
    rows = []
    skill = card["points"][HEADLINE]["skill"]
    for cost in COSTS:
        rows.append((cost, [_text(skill[cost][str(prevalence)]) for prevalence in PREVALENCES]))
    return {"prevalences": PREVALENCES, "rows": rows}


def _diagnosis(card: Card) -> list[dict[str, Any]]:
    rows = []
    levels = (("cause", "cause"), ("cause_within_set", "cause, within its set"), ("family", "family"))
    for level, name in levels:
        for k, facts in card["points"][HEADLINE]["diagnosis"][level].items():
            if k == "confusion":
                continue
            macro = _text(facts["macro"])
            prior = facts.get("majority_prior")
            rows.append({"name": f"{name}, top {k}", "macro": macro, "chance": facts["chance"], "prior": prior})
    return rows


def _confusion(card: Card, sets: Sets) -> dict[str, Any] | None:
    """Answers by family as a matrix and by cause as a list (and a matrix where causes are few); None for one that
    never names a cause.
    """
    diagnosis = card["points"][HEADLINE]["diagnosis"]
    cause, family = diagnosis["cause"]["confusion"], diagnosis["family"]["confusion"]
    named = [i for i, answer in enumerate(cause["answers"]) if answer not in (NOT_NAMED, NOT_IN_TIME)]
    if not any(row[i] for row in cause["counts"] for i in named):
        return None
    found = []
    for true, counts in zip(cause["causes"], cause["counts"], strict=True):
        right = allowed(true, sets)
        answers = sorted(
            ((count, answer) for count, answer in zip(counts, cause["answers"], strict=True) if count), reverse=True
        )
        strict = allowed(true)
        shown = [
            (answer, _count(count), "right" if answer in strict else "in set" if answer in right else "")
            for count, answer in answers
        ]
        found.append({"cause": true, "runs": _count(sum(counts)), "answers": shown, "set": sorted(right - strict)})
    return {
        "causes": found,
        "family": _matrix(family, {name: set(allowed(name)) for name in family["causes"]}, {}),
        "matrix": _matrix(cause, {name: allowed(name) for name in cause["causes"]}, sets)
        if len(cause["causes"]) <= MATRIX
        else None,
    }


def _matrix(confusion: dict[str, Any], right: dict[str, set[str]], sets: Sets) -> dict[str, Any]:
    """Only answers that were given, each count with its share of the row and whether it is right or in the set."""
    used = [i for i in range(len(confusion["answers"])) if any(row[i] for row in confusion["counts"])]
    rows = []
    for true, counts in zip(confusion["causes"], confusion["counts"], strict=True):
        shown = []
        for i in used:
            answer = confusion["answers"][i]
            mark = "right" if answer in right[true] else "in set" if answer in allowed(true, sets) else ""
            shown.append(
                {
                    "count": _count(counts[i]) if counts[i] else "",
                    "heat": heat(counts[i] / max(1, sum(counts))),
                    "mark": mark,
                }
            )
        rows.append((true, _count(sum(counts)), shown))
    return {"answers": [confusion["answers"][i] for i in used], "rows": rows}


def _count(runs: float) -> str:
    """A number of runs, which is an expectation where the threshold is drawn."""
    return f"{round(runs, 1):g}"


def _text(estimate: dict[str, Any], form: str = ".2f") -> str:
    return interval_text(estimate["value"], estimate["low"], estimate["high"], form)
