"""The leaderboard to look at: one HTML page that needs nothing else, made from the scores alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from trainwreck.evaluation.constants import (
    BUDGETS,
    COSTS,
    HEADLINE_BUDGET,
    HEADLINE_COST,
    HEADLINE_PREVALENCE,
    PREVALENCES,
    RATE_STEPS,
)
from trainwreck.evaluation.pages.leaderboard import svg
from trainwreck.evaluation.pages.report.build import number
from trainwreck.evaluation.pages.templates import template
from trainwreck.evaluation.replay.oracles import ORACLES
from trainwreck.evaluation.scoring.equivalence_sets import Sets, shipped
from trainwreck.evaluation.scoring.metrics.diagnosis import NOT_IN_TIME, NOT_NAMED, allowed

BLIND_ENTRIES = ("never", "always", "clock", "periodic", "random", "step_fraction")
COLOURS = 6  # lines that stand out in a chart; the others are grey
MATRIX = 16  # causes up to which a confusion matrix is drawn whole
Card = dict[str, Any]

COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    # key of the row, head, what it is, format
    ("stopped_0.05", "healthy stopped", "share of healthy test runs that the frozen threshold stops", ".0%"),
    ("recall_without_easy", "without easy", "the same recall without scenarios that every one-liner solves", ".2f"),
    ("recall_0.01", "recall at 1 %", "in-time recall with at most 1 % of calibration runs stopped", ".2f"),
    ("recall_default", "recall, default", "in-time recall of the detector's own alarm", ".2f"),
    ("stopped_default", "healthy stopped", "share of healthy runs that its own alarm stops", ".0%"),
    ("stopped_look_alike_default", "look-alikes stopped", "share of look-alikes that its own alarm stops", ".0%"),
    ("false_alarms_per_10000", "false alarms", f"new alarms per {RATE_STEPS:,} healthy steps", ".1f"),
    ("delay_share", "delay", "onset to alarm as a share of the time until the run is lost; a miss is 1", ".2f"),
    ("lead", "lead", "share of the time between visible and lost that is left at the alarm", ".2f"),
    ("skill", "W*", "cost skill, rollback, one run in ten failing: best blind policy 0, alarm at v 1", ".2f"),
    ("top1", "cause, top 1", "in time and the true cause named first; macro over causes", ".2f"),
    ("top1_within_set", "within set, top 1", "the same where any cause of the equivalence set is right", ".2f"),
    ("top3", "cause, top 3", "in time and the true cause among the first three", ".2f"),
    ("top3_within_set", "within set, top 3", "the same where any cause of the equivalence set is right", ".2f"),
)


def page(scores: dict[str, Any], made: dict[str, Any]) -> str:
    """The page as text. scores: `board.standing`. made: `board_files.made`."""
    profiles = list(dict.fromkeys(row["profile"] for row in scores["rows"]))
    panes = [pane(profile, place, scores) for place, profile in enumerate(profiles)]
    outline = template(
        "trainwreck.evaluation.pages.leaderboard", "standings.html.jinja", number=number, breakable=breakable
    )
    return outline.render(made=made, panes=panes, columns=COLUMNS)


def pane(profile: str, place: int, scores: dict[str, Any]) -> dict[str, Any]:
    """Everything of one observation profile. place: its number, which makes anchors of its own."""
    cards = {card["detector"]: card for card in scores["cards"] if card["profile"] == profile}
    rows = [row for row in scores["rows"] if row["profile"] == profile]
    entries = [_entry(f"d{place}-{i}", row, cards[row["detector"]]) for i, row in enumerate(rows)]
    taking_part = [entry for entry in entries if entry["rank"] is not None]
    others = [entry for entry in entries if entry["rank"] is None]
    best = [entry for entry in taking_part if entry["detector"] not in BLIND_ENTRIES][:COLOURS]
    for i, entry in enumerate(best):
        entry["style"] = f"s{i}"
    first = entries[0]["card"]
    easy = scores["easy"][profile]
    return {
        "profile": profile,
        "place": place,
        "counts": first["counts"],
        "notes": first["notes"],
        "easy": easy,
        "groups": [(rank, list(group)) for rank, group in groupby(taking_part, key=lambda entry: entry["rank"])],
        "others": others,
        "best": best,
        "charts": _charts(taking_part, profile),
        "families": _families(entries),
        "scenarios": _scenarios(taking_part, easy),
        "details": [_detail(entry, profile) for entry in entries],
    }


def cell(value: float | None, low: float | None, high: float | None, form: str = ".2f") -> dict[str, Any]:
    """A number and its interval, written out."""
    if value is None or math.isnan(value):
        return {"value": None, "text": "-", "interval": ""}
    interval = "" if low is None or high is None else f"{number(low, form)} to {number(high, form)}"
    return {"value": value, "text": number(value, form), "interval": interval}


def breakable(name: str) -> Markup:
    """A name that may be broken after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def heat(value: float | None) -> int | None:
    """Step of the colour scale, 0 to 10."""
    return None if value is None else round(10 * min(max(value, 0.0), 1.0))


def _entry(anchor: str, row: dict[str, Any], card: Card) -> dict[str, Any]:
    headline = _of_row(row, f"recall_{HEADLINE_BUDGET}")
    return {
        "anchor": anchor,
        "rank": row["rank"],
        "detector": row["detector"],
        "kind": _kind(row["detector"], card),
        "card": card,
        "style": "other",
        "headline": cell(*headline),
        "bar": svg.interval_bar(*headline) if None not in headline else "",
        "cells": [cell(*_of_row(row, key), form) for key, _, _, form in COLUMNS],
        "update_us": row["update_us"],
        "crashed": row["crashed"],
        "runs": card["counts"]["runs"],
    }


def _kind(detector: str, card: Card) -> str:
    if detector in ORACLES:
        return "knows the label"
    if not card["about"].get("causal", True):
        return "reads ahead"
    return "looks at nothing" if detector in BLIND_ENTRIES else ""


def _charts(entries: Sequence[dict[str, Any]], profile: str) -> list[tuple[str, str, Markup]]:
    """Title, what it shows, and the chart, of all that take part."""
    drawn = [entry for entry in entries if entry["detector"] not in BLIND_ENTRIES]
    drawn.sort(key=lambda entry: entry["style"] == "other", reverse=True)  # grey ones below the coloured
    operating = _operating_frame(entry["card"] for entry in drawn)
    for entry in drawn:
        _add_operating(operating, entry)
    delays = _delay_frame(entry["card"] for entry in drawn)
    for entry in drawn:
        known = _known(entry["card"]["delay"]["from_onset"]["detected_by"])
        delays.line(*_held(*known, delays), entry["detector"], f"line {entry['style']}")
    rates = [rate for entry in drawn for rate in entry["card"]["curves"]["alarm_delay"]["rate"] if rate is not None]
    against = svg.Chart(
        svg.log_axis(rates), svg.Axis(0.0, 1.0), f"false alarms per {RATE_STEPS:,} steps watched", "delay", "y"
    )
    for entry in drawn:
        curve = entry["card"]["curves"]["alarm_delay"]
        points = [p for p in zip(curve["rate"], curve["delay"], strict=True) if None not in p]
        against.line([x for x, _ in points], [y for _, y in points], entry["detector"], f"line {entry['style']}")
    return [
        (
            "Operating curves",
            "Best in-time recall at each share of healthy runs stopped, the threshold picked on these runs: a curve to "
            "look at. The dots are scores: the threshold frozen on calibration runs, with both intervals.",
            operating.svg(f"Operating curves, {profile} profile: in-time recall against healthy runs stopped"),
        ),
        (
            "Delay",
            "Share of failing runs detected by so many steps after the onset, with the detector's own alarm. Runs lost "
            "or stopped before stay in the denominator.",
            delays.svg(f"Delay curves, {profile} profile: cumulative share detected against steps after the onset"),
        ),
        (
            "False alarms against delay",
            "Over all thresholds: mean delay as a share of the time there was (a miss is all of it) against false "
            "alarms, each of which ends its run. Lower and further left is better.",
            against.svg(f"Delay against false alarms, {profile} profile"),
        ),
    ]


def _operating_frame(cards: Iterable[Card]) -> svg.Chart:
    shares = [
        share for card in cards for share in [*card["curves"]["operating"]["stopped"], *BUDGETS] if share is not None
    ]
    chart = svg.Chart(svg.log_axis(shares, 1.0), svg.Axis(0.0, 1.0), "healthy runs stopped", "in-time recall", "xy")
    for budget in BUDGETS:
        chart.upright(budget, f"{budget:.0%}")
    return chart


def _add_operating(chart: svg.Chart, entry: dict[str, Any]) -> None:
    card, style = entry["card"], entry["style"]
    curve = card["curves"]["operating"]
    chart.line(curve["stopped"], curve["recall"], entry["detector"], f"line {style}", steps=True)
    frozen = card["recall"][str(HEADLINE_BUDGET)]
    across, up = _three(frozen["stopped"]), _three(frozen)
    if style != "other" and None not in (*across, *up):
        chart.cross(across, up, f"{entry['detector']}, frozen at {HEADLINE_BUDGET:.0%}", f"cross {style}")


def _delay_frame(cards: Iterable[Card]) -> svg.Chart:
    last = max((max(card["delay"]["from_onset"]["detected_by"]["steps"], default=0.0) for card in cards), default=0.0)
    return svg.Chart(svg.Axis(0.0, last or 1.0), svg.Axis(0.0, 1.0), "steps after the onset", "detected", "y")


def _families(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Recall by family and by what was held out: heads with their runs, and a row of cells an entry."""
    parts = entries[0]["card"]["breakdown"]
    heads = [(part, name, facts["exposure"]) for part in ("family", "held_out") for name, facts in parts[part].items()]
    rows = []
    for entry in entries:
        shares = [entry["card"]["breakdown"][part][name] for part, name, _ in heads]
        cells = [cell(s["value"], s["low"], s["high"]) | {"heat": heat(s["value"])} for s in shares]
        rows.append((entry, cells))
    return {"heads": heads, "rows": rows}


def _scenarios(entries: Sequence[dict[str, Any]], easy: Sequence[str]) -> dict[str, Any]:
    """Recall by scenario, and look-alikes stopped: a row a scenario, a column an entry."""
    if not entries:
        return {"entries": [], "failing": [], "look_alike": []}

    def lines(part: str) -> list[dict[str, Any]]:
        found = []
        for name, facts in entries[0]["card"]["breakdown"][part].items():
            shares = [entry["card"]["breakdown"][part][name] for entry in entries]
            cells = [
                cell(s["value"], s["low"], s["high"], ".0%") | {"heat": heat(s["value"]), "events": s["events"]}
                for s in shares
            ]
            found.append({"name": name, "runs": facts["exposure"], "easy": name in easy, "cells": cells})
        return found

    return {"entries": entries, "failing": lines("scenario"), "look_alike": lines("look_alike")}


def _known(by: Mapping[str, Sequence[Any]]) -> tuple[list[float], list[float]]:
    """Steps and shares of `detected_by` where there is a share: there is none where no run fails."""
    there = [(step, share) for step, share in zip(by["steps"], by["value"], strict=True) if share is not None]
    return [step for step, _ in there], [share for _, share in there]


def _held(steps: Sequence[float], shares: Sequence[float], chart: svg.Chart) -> tuple[list[float], list[float]]:
    """The curve with its last share held to the end of the axis."""
    return [*steps, *([chart.x.high] if steps else [])], [*shares, *shares[-1:]]


def _detail(entry: dict[str, Any], profile: str) -> dict[str, Any]:
    """What stands in an entry's own panel."""
    card = entry["card"]
    alone = {**entry, "style": "s0"}
    operating = _operating_frame([card])
    _add_operating(operating, alone)
    origin = card["delay"]["from_onset"]
    delays = _delay_frame([card])
    by = origin["detected_by"]
    if None not in by["low"]:
        delays.band(by["steps"], by["low"], by["high"], "band s0")
    for event, style in (("stopped_before", "line s3 dashed"), ("lost", "line s1 dashed")):
        steps, shares = _thinned(origin["incidence"][event])
        delays.line(steps, shares, event.replace("_", " "), style, steps=True)
    delays.line(*_known(by), "detected", "line s0")
    return {
        "entry": entry,
        "card": card,
        "about": _about(card),
        "points": _points(card),
        "skill": _skill(card),
        "delay": [
            (f"from {name}", cell(*_three(card["delay"][f"from_{name}"]["restricted_mean_steps"]), ".1f"))
            for name in ("onset", "visible")
        ],
        "lead": cell(*_three(card["lead"])),
        "monitor": cell(*_three(card["monitor_recall"])),
        "rate": cell(*_three(card["false_alarm_rate"]), ".1f"),
        "stops": [(kind, facts["exposure"], cell(*_three(facts), ".0%")) for kind, facts in card["false_stop"].items()],
        "diagnosis": _diagnosis(card),
        "confusion": _confusion(card, shipped(profile)),
        "charts": (
            operating.svg(f"Operating curve of {entry['detector']}"),
            delays.svg(f"What became of the failing runs under {entry['detector']}, by steps after the onset"),
        ),
    }


def _about(card: Card) -> str:
    """What an entry says of itself, as sentences."""
    about, cost = card["about"], card["cost"]
    said = [
        (about.get("rule"), "{}"),
        (about.get("source"), "Source: {}"),
        (about.get("blind_spots"), "Blind to: {}"),
        (", ".join(about.get("signals", ())), "Reads {}"),
        (about.get("version"), "Version {}"),
        (about.get("licence"), "Licence {}"),
        (card["track"], "Track: {}"),
        (f"{number(cost['update_us'], '.1f')} \u00b5s an update, {cost['state_bytes']} bytes of state", "{}"),
    ]
    sentences = [form.format(str(text).rstrip(".")) for text, form in said if text]
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def _points(card: Card) -> list[dict[str, Any]]:
    rows = []
    for point, recall in card["recall"].items():
        rows.append(
            {
                "name": "own alarm" if point == "default" else f"budget {float(point):.0%}",
                "threshold": None if point == "default" else number(recall["threshold"], ".4g"),
                "recall": cell(*_three(recall)),
                "stopped": cell(*_three(recall["stopped"]), ".0%"),
                "look_alike": cell(*_three(recall["stopped_look_alike"]), ".0%"),
            }
        )
    return rows


def _skill(card: Card) -> dict[str, Any]:
    rows = []
    for cost in COSTS:
        cells = [cell(*_three(card["skill"][cost][str(prevalence)])) for prevalence in PREVALENCES]
        rows.append((cost, cells))
    return {"prevalences": PREVALENCES, "rows": rows, "headline": (HEADLINE_COST, HEADLINE_PREVALENCE)}


def _diagnosis(card: Card) -> list[dict[str, Any]]:
    rows = []
    levels = (("cause", "cause"), ("cause_within_set", "cause, within its set"), ("family", "family"))
    for level, name in levels:
        for k, facts in card["diagnosis"][level].items():
            if k == "confusion":
                continue
            macro = cell(*_three(facts["macro"]))
            prior = facts.get("majority_prior")
            rows.append({"name": f"{name}, top {k}", "macro": macro, "chance": facts["chance"], "prior": prior})
    return rows


def _confusion(card: Card, sets: Sets) -> dict[str, Any] | None:
    """Answers by family as a matrix and by cause as a list (and a matrix where causes are few); None for one that
    never names a cause.
    """
    cause, family = card["diagnosis"]["cause"]["confusion"], card["diagnosis"]["family"]["confusion"]
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
            (answer, count, "right" if answer in strict else "in set" if answer in right else "")
            for count, answer in answers
        ]
        found.append({"cause": true, "runs": sum(counts), "answers": shown, "set": sorted(right - strict)})
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
        cells = []
        for i in used:
            answer = confusion["answers"][i]
            mark = "right" if answer in right[true] else "in set" if answer in allowed(true, sets) else ""
            cells.append({"count": counts[i], "heat": heat(counts[i] / max(1, sum(counts))), "mark": mark})
        rows.append((true, sum(counts), cells))
    return {"answers": [confusion["answers"][i] for i in used], "rows": rows}


def _thinned(curve: dict[str, Any], most: int = 60) -> tuple[list[float], list[float]]:
    """At most so many points of a rising curve, the last among them."""
    steps, shares = curve["steps"], curve["share"]
    stride = max(1, math.ceil(len(steps) / most))
    kept = sorted({*range(0, len(steps), stride), len(steps) - 1}) if steps else []
    return [steps[i] for i in kept], [shares[i] for i in kept]


def _of_row(row: dict[str, Any], key: str) -> tuple[Any, Any, Any]:
    return row[key], row[f"{key}_low"], row[f"{key}_high"]


def _three(estimate: dict[str, Any]) -> tuple[Any, Any, Any]:
    return estimate["value"], estimate["low"], estimate["high"]
