"""The page of detectors, `docs/monitors.md`, from the classes themselves."""

from collections.abc import Iterable

from trainwreck.evaluation.detectors.base import Detector
from trainwreck.evaluation.detectors.generic.series import SeriesDetector
from trainwreck.evaluation.detectors.registry import EXTRA, SWITCH, known_detectors

INTRODUCTION = f"""# Detectors on the board

The rule of each, where the rule and its defaults come from, and what it cannot see.
`trainwreck score DIR --detector NAME` runs one; `trainwreck leaderboard DIR` runs all. A row is what the logger gives,
so on a thinned profile "100 rows" are 100 logged rows, not steps.

Those with a library in the last column are that library's code, driven row by row; `pip install 'trainwreck[{EXTRA}]'`
installs them. Without it they are left out of the board, which names them; {SWITCH}=off leaves
them out in any case. The others are our own code from the published rule. Signals are columns of
[schema.md](schema.md). A signal that a profile does not show is not available, and the detector uses the others.

Names in `_gated` run behind the shared gate of `evaluation/detectors/generic/series.py`: it alarms at a loss or
gradient norm that is not finite, and gives the detector, in place of each number, how far its logarithm is from the
trend of the rows before, in standard deviations. Next to each is the same detector without the gate.
"""

SHORTCUTS = """
The harness makes two further sanity entries, `base_alone` and `first_rows`, for every data set whose train split has
failing and healthy runs; without one they are left out. They show what gives a failing run away without its failure:
its base, which no detector is shown, or its first ten rows (`evaluation/leaderboard/shortcuts.py`).
"""


def document() -> str:
    """The page, in Markdown. It does not depend on what is installed."""
    known = list(known_detectors().values())
    shown = [one for one in known if not one.source.startswith(("sanity", "one-liner"))]
    generic = [one for one in shown if issubclass(one, SeriesDetector)]
    published = [one for one in shown if one not in generic]
    simple = [one for one in known if one not in shown]
    parts = [INTRODUCTION]
    for title, detectors in (
        ("Monitors of trainers and papers", published),
        ("Generic detectors, raw and gated", generic),
        ("One-liners and sanity entries", simple),
    ):
        parts.append(f"\n## {title}\n\n{_table(detectors)}")
    return "".join([*parts, SHORTCUTS])


def _table(detectors: Iterable[type[Detector]]) -> str:
    lines = ["| detector | rule | source | blind spots | signals | library |", "|---|---|---|---|---|---|"]
    for one in detectors:
        signals = ", ".join(f"`{s}`" if s.islower() and " " not in s else s for s in one.signals)
        cells = (f"`{one.name}`", one.rule, one.source, one.blind_spots, signals, ", ".join(one.requires))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
