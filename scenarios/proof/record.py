"""Proofs as a table: what `verify` prints, and the record that is committed."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import read_json, write_json, write_text
from trainwreck.evaluation.intervals import binomial_interval
from trainwreck.scenarios.proof import verify
from trainwreck.scenarios.proof.verify import Proof, to_rows
from trainwreck.scenarios.spec import outside
from trainwreck.scenarios.spec import proofs as shipped
from trainwreck.scenarios.training.environment import RESULTS, environment


def enter(proofs: Sequence[Proof], results: Path = RESULTS / "proof", *, fresh: int | None = None) -> None:
    """Add proofs to the record, in the place of older ones of the same run set, and write the table.

    results: the folder of the table. fresh: the first of the seeds, where they are fresh ones; the proofs are then the
    second halves of those in the record. A new first half keeps its second one while setup, knobs and predicate are the
    same. InputError for a scenario from outside the catalogue, and for a second half without a first of this predicate.
    """
    for proof in proofs:
        if outside.is_outside(proof.scenario):
            raise InputError(f"record: {proof.scenario!r} is not in the catalogue; allowed: its scenarios")
    rows = {_key(row): row for row in (read_json(shipped.path()) if shipped.path().exists() else [])}
    for row in to_rows(proofs):
        old, touched = rows.get(_key(row), {}), verify.predicate(row["scenario"])
        if fresh is None:
            kept = old.get("identity") == row["identity"] and old.get("fresh", {}).get("predicate") == touched
            rows[_key(row)] = row | {"predicate": touched} | ({"fresh": old["fresh"]} if kept else {})
        elif old.get("identity") != row["identity"] or _predicate(old, touched) != touched:
            raise InputError(f"record: {row['scenario']!r} is not proven as it is now; allowed: seeds from 0 on first")
        else:
            half = {name: row[name] for name in (*verify.SHARES, "fooled", "bitwise", "seeds")}
            rows[_key(row)] = old | {"fresh": {"first_seed": fresh, "predicate": touched} | half}
        rows[_key(row)]["proven"] = verify.both_halves(rows[_key(row)])["proven"]
    ordered = sorted(rows.values(), key=_key)
    write_json(shipped.path(), ordered)
    write_text(results / "README.md", HEAD + markdown(ordered) + carried(ordered) + missing(shipped.unproven()))
    write_json(results / "environment.json", environment())
    shipped.recorded.cache_clear()


def _predicate(half: dict[str, Any], default: str) -> str:
    return str(half.get("predicate", half.get("not_weaker", default)))


def markdown(rows: Sequence[dict[str, Any]], verdict: str = "proven") -> str:
    """The table that is committed with the results. verdict: proven, or holds, which a quick look on one seed tells."""
    head = (
        f"| scenario | size | severity | {verdict} | seeds | signature: faulty | twin | healthy | bitwise twin "
        "| cured | latent | median v - s | shows first in | final gap (nats) | non-finite | s/run |"
    )
    lines = [head, "|" + "---|" * 16]
    for row in rows:
        name = row["scenario"] + (f" ({', '.join(row['overrides'])})" if row["overrides"] else "")
        both, fresh = verify.both_halves(row), row.get("fresh", {})
        cure = _share(row, "cured")
        if row["fooled"]:
            best = max(sorted(both["fooled"]), key=lambda k: both["fooled"][k])
            halves = [half["fooled"] for half in (row, fresh) if half]
            cure = f"fools {best}: {_halves([half[best] for half in halves], both['fooled'][best], both['seeds'])}"
        cells = [
            f"`{name}`", row["size"], row["severity"] or "-", "yes" if both[verdict] else "**no**",
            " + ".join(str(half["seeds"]) + "*" * ("not_weaker" in half) for half in (row, fresh) if half),
            *(_share(row, f"signature_{runs}") for runs in ("faulty", "twin", "healthy")),
            "yes" if both["bitwise"] else "**no**", cure, row["latent"], _number(row["delay"], "g"),
            row["first_signal"] or "-", _number(row["gap"], "+.3f"), row["non_finite"], f"{row['seconds']:.1f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def carried(rows: Sequence[dict[str, Any]]) -> str:
    """What holds elsewhere too: proofs on real text and at larger sizes, beside those of the same severity at home."""
    home = {(r["scenario"], r["severity"]): r for r in reversed(rows) if not r["overrides"] and r["size"] in HOMES}
    away = [r for r in rows if TEXT in r["overrides"] or (not r["overrides"] and r["size"] not in HOMES)]
    pairs = [(r, home[r["scenario"], r["severity"]]) for r in away if (r["scenario"], r["severity"]) in home]
    if not pairs:
        return ""
    lines = [CARRIED.format(counts=_counts([row for row, _ in pairs]), pilots=sentence(pilots()))]
    lines += [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for row, first in sorted(pairs, key=lambda pair: (not pair[0]["proven"], _key(pair[0]))):
        known = (*AS_TEXT, *AT_SMALL) if row["size"] == SMALL else AS_TEXT
        where = ", ".join([_place(row), *(o for o in row["overrides"] if o not in known)])
        rates = [_percent(max(r["fooled"].values(), default=r["signature_faulty"])) for r in (first, row)]
        cells = [
            f"`{row['scenario']}`", where, row["severity"] or "-", "yes" if row["proven"] else "**no**",
            " -> ".join(rates), f"{_percent(first['cured'])} -> {_percent(row['cured'])}",
            f"{first['latent']} -> {row['latent']}",
            f"{_number(first['gap'], '+.3f')} -> {_number(row['gap'], '+.3f')}",
            _change(first["first_signal"] or "-", row["first_signal"] or "-"),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def pilots() -> dict[str, Any]:
    """What was found on one seed, 20 or 21, on real text at `small`, so that the table of proofs hides no choice.

    held_back: finding to the scenarios of which there is no proof for that; strengths: other strengths and lengths,
    in words.
    """
    content: dict[str, Any] = json.loads(
        (files("trainwreck.scenarios.proof") / "pilots.json").read_text(encoding="utf-8")
    )
    return content


def sentence(found: dict[str, Any]) -> str:
    """Of `pilots`, all in words."""
    parts = [f"{what}: {', '.join(f'`{id}`' for id in ids)}" for what, ids in found["held_back"].items()]
    return f"{'; '.join(parts)}. {found['strengths']}"


def _place(row: dict[str, Any]) -> str:
    size = "" if row["size"] in HOMES else row["size"]
    if TEXT not in row["overrides"]:
        return size
    return f"real text at {size}" if size else "real text"


def _counts(rows: Sequence[dict[str, Any]]) -> str:
    """How many scenarios are proven at each place, in words: at one strength of the fault at least."""
    places = sorted({_place(row) for row in rows}, key=lambda place: (len(place), place))
    tried = [{row["scenario"] for row in rows if _place(row) == place} for place in places]
    proven = [{row["scenario"] for row in rows if _place(row) == place and row["proven"]} for place in places]
    return ", ".join(f"{p} {len(held)} of {len(ids)}" for p, held, ids in zip(places, proven, tried, strict=True))


def missing(rows: Sequence[dict[str, str]]) -> str:
    """What was looked for and not found: no label of these is shipped."""
    if not rows:
        return ""
    lines = ["", "## Unproven", "", "Documented, tried, and no scenario: nothing below is shipped as a label.", ""]
    lines += ["| id | family | fault | what was tried |", "|---|---|---|---|"]
    lines += [f"| `{r['id']}` | {r['family']} | {r['fault']} | {r['tried']} |" for r in rows]
    return "\n".join(lines) + "\n"


def _share(row: dict[str, Any], name: str) -> str:
    """A share of each half with the exact interval of both."""
    both = verify.both_halves(row)
    if row[name] is None:
        return "-"
    return _halves([half[name] for half in (row, row.get("fresh")) if half], both[name], both["seeds"])


def _halves(shares: Sequence[float], pooled: float, seeds: int) -> str:
    low, high = binomial_interval(round(pooled * seeds), seeds)
    return f"{' + '.join(map(_percent, shares))} [{low:.0%}, {high:.0%}]"


def _key(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["scenario"], row["size"], " ".join(row["overrides"]), row["severity"]


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else format(value, form)


HOMES = ("micro", "deep")
TEXT = "data.source=text"
AS_TEXT = (TEXT, "model.vocab_size=256")
SMALL = "small"
# What keeps a run at `small` short on a CPU: the tokens of a batch are as many as at the default size. The dialect is
# one that no text is drawn in; as it is the same for all, they share their healthy runs.
AT_SMALL = ("data.rows=2", "evaluation.rows=8", "steps=160", "data.dialect=full")

COLUMNS = (
    "scenario", "where", "severity", "carries over", "signature", "cured", "latent", "final gap (nats)",
    "shows first in",
)  # fmt: skip

CARRIED = """
## What carries over

The same scenarios on other data and sizes, as they are but for what `where` names. Proven there too: {counts}.
Each pair is on the default data and size -> on those of `where`; the signature of a look-alike is how often it fools a
one-line detector. On real text (`trainwreck verify ID data.source=text model.vocab_size=256 --record`) the source is
Python's standard library, a byte a token. `small` has 6 layers of width 256 and rows of 256 tokens; on real text, with
`--size small data.source=text model.vocab_size=256 data.rows=2 evaluation.rows=8 steps=160 data.dialect=full`,
a batch has as many tokens as at the default size, and the runs are short: the model has learnt little more than which
byte follows which, so that faults of what it has not learnt yet do it no harm. Most candidates for that size were tried
on one seed first, 20 or 21 (the same with `--quick --first-seed 20`), and those whose result differed from that at the
default size were not taken to a proof. {pilots}
"""

HEAD = """# Proof of the scenarios

Made by `trainwreck verify --record` (one scenario: `trainwreck verify ID --record`). For each seed the
faulty run, its twin and the cured run are trained, and as many healthy runs of further seeds.

- **seeds**: those from 0 on, and as many fresh ones (`trainwreck verify --fresh --record`), which are drawn by the
  command when the predicate is finished; a predicate that is touched loses its fresh half. Shares are of each half,
  with the exact binomial interval (95 %) of both together, by which **proven** is decided.
- `8*`: a first half that an earlier predicate judged. Today's asks for all that the earlier one did, and mostly more:
  where no twin or healthy run met that one, none meets today's, but a faulty run may have lost its signature. In the
  record (`scenarios/spec/proofs.json`) `judged_at` is the commit of a half that is older than the hashes of predicates;
  its predicate was compared with today's clause by clause, with every function that it calls, in part by reading:
  no command does that. `trainwreck verify ID --record` trains and judges the half anew.
- **signature**: share of runs on which the scenario's predicate holds: at least 95 % of faulty runs of the first half
  and 90 % of both, so that one of sixteen may lack it; at most 2 % of twins and of healthy runs (each compared with a
  run of another seed).
- **bitwise twin**: all telemetry before the onset is bitwise the twin's.
- **cured**: share of cured runs that end within tolerance of the twin's final loss, at least 90 %. For
  look-alikes, the one-line detector that is fooled most often, and on what share of the runs.
- **latent**: faulty runs that were not harmed. **v - s**: steps from the onset to the first step at which
  an outcome signal is further from the twin than healthy runs of other seeds are from each other.
- **final gap**: median validation loss less the twin's, of the runs that end finite. **s/run**: seconds of
  one core, in a bundle.

"""
