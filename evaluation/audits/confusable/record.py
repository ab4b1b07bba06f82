"""Equivalence sets as a page, and the record of them that is committed and that scores use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainwreck.evaluation.files import write_json, write_text
from trainwreck.evaluation.replay.profiles import PROFILES
from trainwreck.evaluation.scoring import equivalence_sets as shipped

HEAD = """# Equivalence sets

Causes that an observation profile does not tell apart, and causes that it does not show, measured on {runs} runs of
{causes} causes by `{command}`.

For every pair of causes a classifier is cross-validated over {folds} blocks of seeds, on how far each signal that
the profile hands out is from healthy runs of the same base after the onset
(`evaluation/audits/confusable/deviation.py`). Pairs that it does not tell apart better than chance, with one false
claim in {share} allowed among all pairs, are joined; no set holds two causes that were told apart. Naming any cause of
a set is right within the set, at that profile; the strict number is given with it. **Not detected**: failing runs that
the same classifier does not tell from healthy runs of their base. **Control**: pairs of bases whose healthy runs were
told apart at p <= {rate}; more than that share would mean that bases are told apart, and not causes. **Doubtful**:
pairs on two bases that were told apart, but no better than two bases alone might be, at worst
(`evaluation/audits/confusable/equivalence.py`); no set joins them.

A set says that {folds} seeds did not do it. More seeds may split a set. A classifier that sees the twin would tell
more apart; no detector has one, and so none was given.
"""


def page(found: Mapping[str, Any], command: str) -> str:
    """The README of the record, Markdown."""
    head = HEAD.format(
        runs=found["runs"], causes=len(found["causes"]), folds=found["folds"], command=command,
        share=round(1 / found["rate"]), rate=found["rate"],
    )  # fmt: skip
    lines = [head, *summary(found)]
    for profile, facts in _by_profile(found):
        lines += ["", f"## {profile}", "", "Sets:" if facts["sets"] else "No two causes are joined."]
        lines += [*([""] if facts["sets"] else []), *(f"- {', '.join(f'`{c}`' for c in one)}" for one in facts["sets"])]
        hidden = facts["undetectable"]
        lines += ["", f"Not detected: {', '.join(f'`{c}`' for c in hidden)}." if hidden else "Every cause is detected."]
        if facts["not_separated"]:
            lines += ["", "| not told apart | and | share won | p | in one set |", "|---|---|---|---|---|"]
            lines += [
                f"| `{pair['a']}` | `{pair['b']}` | {pair['won']:.2f} [{pair['low']:.2f}, {pair['high']:.2f}] "
                f"| {pair['p']:.3f} | {'yes' if pair['one_set'] else 'no'} |"
                for pair in facts["not_separated"]
            ]
    if found["left_out"]:
        lines += ["", "## Not measured", "", *(f"- `{c}`: {why}" for c, why in found["left_out"].items())]
    return "\n".join(lines) + "\n"


def summary(found: Mapping[str, Any]) -> list[str]:
    """One row a profile, as a Markdown table."""
    lines = ["| profile | pairs | told apart | doubtful | sets | causes in sets | not detected | control |"]
    lines += ["|" + "---|" * 8]
    for profile, facts in _by_profile(found):
        control = facts["control"]
        lines.append(
            f"| {profile} | {facts['pairs']} | {facts['separated']} | {len(facts['doubtful'])} | {len(facts['sets'])} "
            f"| {sum(map(len, facts['sets']))} | {len(facts['undetectable'])} "
            f"| {'-' if control['share'] is None else format(control['share'], '.3f')} of {control['pairs']} |"
        )
    return lines


def _by_profile(found: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Richest first, also where a file has sorted them by name."""
    return [(profile, found["profiles"][profile]) for profile in PROFILES if profile in found["profiles"]]


def record(found: Mapping[str, Any], command: str, environment: Mapping[str, Any], results: Path | None = None) -> Path:
    """Write the page, every number, the environment, and the sets that ship with the package; returns the folder.

    results: the folder of all results, that of the checkout by default.
    """
    folder = (results or shipped.path().resolve().parents[2] / "results") / "equivalence"
    write_text(folder / "README.md", page(found, command))
    write_json(folder / "result.json", {"command": command, **found})
    write_json(folder / "environment.json", dict(environment))
    if results is None:
        kept = {
            profile: {name: facts[name] for name in ("sets", "undetectable")}
            for profile, facts in found["profiles"].items()
        }
        write_json(shipped.path(), {"causes": found["causes"], "profiles": kept})
        shipped.measured.cache_clear()
    return folder
