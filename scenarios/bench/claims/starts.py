"""Whether the outcome of an exported program hangs on last bits: trained from starts that differ in these alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainwreck.evaluation.intervals import binomial_interval, interval_text
from trainwreck.evaluation.progress import Tick
from trainwreck.scenarios.bench.claims.reproducers import kept, setting
from trainwreck.scenarios.bench.table import Limit, Table
from trainwreck.scenarios.reproducers.agreement import check_starts
from trainwreck.scenarios.reproducers.margin import CLOSE, FEW, LAST_BITS, MANY, Starts
from trainwreck.scenarios.spec.registry import scenarios

NAME = "starts"
COLUMNS = ("scenario", "starts", "exit 0", "largest gap", "largest difference")


def every_program(tick: Tick, ids: Sequence[str] | None = None) -> Table:
    """Every program from several starts, or some programs; what was trained before, of the same text, is not again."""
    ids = list(scenarios()) if ids is None else ids
    where = setting()
    found = {}
    for done, id in enumerate(ids):
        found[id] = check_starts(id, kept_starts(where))
        tick(done + 1, len(ids), id)
    return table(where, found)


def kept_starts(where: str) -> Path:
    """The folder of what became of the starts under a setting."""
    return kept(where) / NAME


def table(where: str, found: Mapping[str, Starts]) -> Table:
    """A record. where: the setting; found: by scenario."""
    whole = sum(one.held == one.count for one in found.values())
    chaotic = [one for one in found.values() if one.count > FEW]
    count, held = sum(one.count for one in chaotic), sum(one.held for one in chaotic)
    missing = len(scenarios()) - len(found)
    interval = interval_text(held / count, *binomial_interval(held, count), ".3f") if chaotic else "-"
    return Table(
        name=f"reproducers/{NAME}/{where}",
        title=(
            f"Exported programs from moved starts on {where}: {whole} of {len(found)} exit with 0 from every start"
            + (f" ({missing} of {len(scenarios())} were not trained)" if missing else "")
        ),
        how=(
            "Another processor rounds differently, as another start does whose weights are off in their last bits. "
            "Each program's setup is trained by the laboratory from its own start and from others, where every initial "
            f"weight is times 1 + {LAST_BITS:g} times a normal number, and each is judged as the program judges it. "
            "exit 0: the starts from which it would exit with 0. largest gap: of a start, how far apart the two final "
            "losses are that must agree, as a share of what is allowed. largest difference: of a training loss from "
            "that of the first start at the same step, over all runs, in nats; none where one alone is finite. "
            f"A program whose losses stay within {CLOSE:g} is trained from {FEW} starts: rounding does not grow in it, "
            f"and all of its numbers stay where they are. The others are chaotic, and are trained from {MANY}."
        ),
        command="trainwreck bench starts --record",
        columns=COLUMNS,
        rows=tuple(_row(id, one) for id, one in found.items()),
        limit=Limit(
            heading="Chaotic programs",
            text=(
                "The interval is Clopper and Pearson's, as if all starts of all chaotic programs were drawn alike. Of "
                f"one program, {MANY} of {MANY} leaves a chance of up to {binomial_interval(0, MANY)[1]:.2f} that "
                "another start does not exit with 0 (two-sided, 95 %)."
            ),
            columns=("programs", "starts", "exit 0", "share"),
            rows=((len(chaotic), count, held, interval),),
        ),
    )


def _row(id: str, one: Starts) -> tuple[str, int, int, str, str]:
    gap = "-" if one.gap is None else f"{one.gap:.2f}"
    return id, one.count, one.held, gap, "-" if one.apart is None else f"{one.apart:.1g}"
