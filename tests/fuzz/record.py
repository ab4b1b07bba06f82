"""Writes results/attack from what `make attack` left in a folder: a JUnit file for each area, and one of the kills.

python tests/fuzz/record.py FOLDER. An area counts only if its test passed, which is to say that no attempt ended in a
traceback, a hang, over 4 GiB, or with another entry, run or file changed; a test that failed is no record.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

from trainwreck.scenarios.bench.table import Table
from trainwreck.scenarios.training.environment import RESULTS

AREAS = {"detectors": 100, "data_sets": 750, "logs": 1_100, "commands": 600}  # attempts
KILLS = 200
HOW = (
    "Attempts are drawn by tests/fuzz, one seed each. An area is counted where its test passed, so that in none of its "
    "attempts there was a traceback, a hang (a command line over 120 s, a detector beyond its limits), over 4 GiB of "
    "memory, a refusal without its one line, a control character in what is printed, a half-written file, a process or "
    "folder left behind, or another entry's, run's or file's content changed. Kills: SIGKILL to `generate` with its "
    "workers at moments drawn over its whole length, called again each time; every checksum of each data set is that "
    "of an undisturbed one. 0: not run to its end."
)


def properties(file: Path) -> dict[str, int]:
    """What the one test of a JUnit file counted, nothing where it was not run; ValueError where it did not pass."""
    if not file.exists():
        return {}
    case = ElementTree.parse(file).getroot().find(".//testcase")
    if case is None or any(case.find(end) is not None for end in ("failure", "error", "skipped")):
        raise ValueError(f"{file}: its test did not pass")
    return {str(one.get("name")): int(str(one.get("value"))) for one in case.iter("property")}


def table(folder: Path) -> Table:
    """The record of all areas."""
    rows: list[tuple[str, int, int]] = []
    for area, asked in AREAS.items():
        made = properties(folder / f"{area}.xml").get("attempts", 0)
        rows.append((area.replace("_", " "), made, asked))
    kills = properties(folder / "kills.xml")
    rows.append((f"kills of generate, over {kills.get('data sets', 0)} data sets", kills.get("kills", 0), KILLS))
    return Table(
        name="attack",
        title="The attack anew",
        how=HOW,
        command="make attack",
        columns=("what", "attempts without anything wrong", "asked for"),
        rows=tuple(rows),
    )


if __name__ == "__main__":
    table(Path(sys.argv[1])).record(RESULTS)
