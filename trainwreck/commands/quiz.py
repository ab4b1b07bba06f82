"""The quiz: people guess the failure, and are scored as detectors are."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from trainwreck.commands import choices
from trainwreck.commands.choices import DATA_SET, DETECTOR, PATH, SEEDS, OneOf
from trainwreck.commands.options import as_json
from trainwreck.commands.tables import number, print_json, print_table
from trainwreck.evaluation.constants import DEFAULT_PROFILE
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.intervals import row_interval_text
from trainwreck.evaluation.progress import progress

if TYPE_CHECKING:
    from trainwreck.evaluation.dataset.dataset import DataSet
    from trainwreck.evaluation.pages.quiz.quiz import Quiz

SEED = 7
SHOWN = ("recall", "stopped", "stopped_look_alike", "skill", "top1", "family")


detectors_option = click.option(
    "--detector",
    "detectors",
    type=DETECTOR,
    multiple=True,
    help="Beside the players, instead of the built-in ones. May be repeated.",
)


class PlayGroup(click.Group):
    """`play` is the command where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args[:1] and args[0] in (*self.commands, *self.get_help_option_names(ctx))
        completed = ctx.resilient_parsing and not args  # the word that names the command is not there yet
        return super().parse_args(ctx, args if named or completed else ["play", *args])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, incomplete), *play.shell_complete(ctx, incomplete)]


@click.group(cls=PlayGroup)
def quiz() -> None:
    """Guess the failure: play in a browser, grade answers.

    `trainwreck quiz [DIR] ...` is `trainwreck quiz play [DIR] ...`.
    """


@quiz.command()
@click.argument("dir", type=DATA_SET, default="sample")
@click.option("--runs", type=int, default=12, show_default=True, help="Half of them fail, a quarter are look-alikes.")
@click.option(
    "--seed", type=SEEDS, default=SEED, show_default=True, help="The same seed is the same set on every machine."
)
@click.option(
    "--profile", type=OneOf(choices.PROFILES), default=DEFAULT_PROFILE, show_default=True, help="What is shown."
)
@click.option("--family", "families", type=OneOf(choices.FAMILIES, shown=False), metavar="FAMILY", multiple=True,
              help="Failing runs of this family only. May be repeated.")  # fmt: skip
@click.option("--part", help="Instead of a draw, share K of M of all runs, as K/M: together a row on the leaderboard.")
@click.option("--choices", type=OneOf(("all", "set")), default="all", show_default=True,
              help="Causes to name from: of the whole catalogue, or of the data set.")  # fmt: skip
@click.option(
    "--speed", type=int, default=10, show_default=True, help="Rows a second to begin with: 2, 5, 10, 25 or 60."
)
@click.option("--beginner", is_flag=True, help="Four causes to choose from at each stop, instead of all.")
@detectors_option
@click.option("--sealed", is_flag=True, help="Keep the answers out of the page, in a key file beside it.")
@click.option("--out", type=PATH, help="The page, quiz.html by default; with --terminal the answers.")
@click.option("--open/--no-open", "opened", default=True, show_default=True, help="Show the page in a browser.")
@click.option("--terminal", is_flag=True, help="Play here instead of in a browser.")
@click.option("--player", help="With --terminal: your name.")
@as_json
def play(
    dir: Path,
    runs: int,
    seed: int,
    profile: str,
    families: Sequence[str],
    part: str | None,
    choices: str,
    speed: int,
    beginner: bool,
    detectors: Sequence[str],
    sealed: bool,
    out: Path | None,
    opened: bool,
    terminal: bool,
    player: str | None,
    as_json: bool,
) -> None:
    """Make one page on which runs are revealed step by step. DIR is the sample by default.

    The player says stop when sure and names the cause, then sees the truth and what each detector did. Exported answers
    of a room are scored by `trainwreck quiz grade`.
    """
    if out is not None and not out.name:
        raise InputError(f"out: {str(out)!r} is not allowed; allowed: a file")
    from trainwreck.evaluation.dataset.dataset import load, telemetry_digest
    from trainwreck.evaluation.pages.quiz.key import write_key
    from trainwreck.evaluation.pages.quiz.page import SPEEDS, write_page
    from trainwreck.evaluation.pages.quiz.quiz import make
    from trainwreck.evaluation.pages.quiz.recipe import Part, Recipe
    from trainwreck.evaluation.replay.unlabelled import refuse_imported
    from trainwreck.scenarios.spec.pages import causes

    if speed not in SPEEDS:
        raise InputError(f"speed: {speed} is not allowed; allowed: {', '.join(map(str, SPEEDS))}")
    if terminal and (sealed or beginner or as_json):
        raise InputError("terminal: not allowed beside --beginner, --sealed or --json; allowed: one of them")
    if player is not None and not terminal:
        raise InputError("player: not allowed without --terminal; in the page everyone gives a name")
    dataset = load(dir)
    refuse_imported(dataset, "asked about")  # they have no catalogue, which is read first
    recipe = Recipe(
        telemetry_digest(dataset), seed, runs, profile, tuple(sorted(set(families))), Part.read(part) if part else None
    )
    families_of, titles = causes(dataset, whole_catalogue=choices == "all")
    with progress("quiz", quiet=as_json) as tick:
        made = make(dataset, recipe, families_of, list(detectors) or None, tick)
    if terminal:
        return _in_terminal(dataset, made, player or "player", out or Path("answers.json"))
    page = out or Path("quiz.html")
    key = page.with_suffix(".key.json")
    if sealed:
        write_key(key, made)
    write_page(page, dataset, made, titles, sealed=sealed, speed=speed, beginner=beginner)
    if as_json:
        facts = {"quiz": str(page), "id": recipe.id, "runs": len(made.runs), "key": str(key) if sealed else None}
        return print_json(facts)
    kinds = made.runs["kind"].value_counts()
    print(f"quiz: {page} ({len(made.runs)} runs, {page.stat().st_size / 1e6:.1f} MB; id {recipe.id})")
    if sealed:
        print(f"key:  {key} (keep it: labels, and what detectors did)")
    print("of these " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()), file=sys.stderr)
    if opened and sys.stdout.isatty():
        click.launch(str(page))


def _in_terminal(dataset: "DataSet", made: "Quiz", player: str, out: Path) -> None:
    """Play, keep the answers, and print the player beside the detectors."""
    from trainwreck.evaluation.pages.quiz.answers import write_sheet
    from trainwreck.evaluation.pages.quiz.classroom.scores import results
    from trainwreck.evaluation.pages.quiz.terminal import play as ask

    sheet = ask(dataset, made, player)
    write_sheet(out, sheet)
    print_people(results([sheet], {made.recipe.id: made}).rows)
    print(f"answers: {out}")


@quiz.command()
@click.argument("exports", nargs=-1, required=True, type=PATH)
@click.option("--key", "keys", multiple=True, type=PATH, help="Of a sealed quiz. May be repeated.")
@click.option(
    "--data",
    type=DATA_SET,
    default="sample",
    show_default=True,
    help="Data set of the quiz, where no key is given.",
)
@detectors_option
@click.option("--out", type=PATH, help="Folder for the summary: class.html, people.csv, runs.csv.")
@click.option("--submission", help="Name of a submission of the room; the answers cover every run of the data set.")
@click.option("--code", help="Of the submission: address where quiz and answers lie.")
@click.option("--licence", default="CC-BY-4.0", show_default=True, help="Of the answers.")
@click.option("--contact", help="Of the submission: who answers questions.")
@click.option("--submissions", type=PATH, default=Path("results/leaderboard"), show_default=True,
              help="Folder of submissions.")  # fmt: skip
@as_json
def grade(
    exports: Sequence[Path],
    keys: Sequence[Path],
    data: Path,
    detectors: Sequence[str],
    out: Path | None,
    submission: str | None,
    code: str | None,
    licence: str,
    contact: str | None,
    submissions: Path,
    as_json: bool,
) -> None:
    """Grade exported answers.

    Each player, the room and the detectors are scored on the same runs, with what was missed. EXPORTS are files or
    folders of them. Files that were edited, are of another quiz or are there twice are refused.
    """
    from trainwreck.evaluation.leaderboard.submission import Facts
    from trainwreck.evaluation.pages.quiz.classroom.class_page import write_class
    from trainwreck.evaluation.pages.quiz.classroom.collect import collect, quizzes_of
    from trainwreck.evaluation.pages.quiz.classroom.people import ROOM
    from trainwreck.evaluation.pages.quiz.classroom.scores import results
    from trainwreck.evaluation.pages.quiz.classroom.summary import confusions, run_rows
    from trainwreck.scenarios.spec.pages import causes

    if submission is not None and (code is None or contact is None):
        raise InputError(f"{'code' if code is None else 'contact'}: missing; a submission needs --code and --contact")
    facts = Facts(submission or ROOM, "1", code or "", licence, contact or "", causal=True)
    if submission is not None:
        facts.check()
    sheets = collect(exports)
    with progress("grade", quiet=as_json) as tick:
        quizzes = quizzes_of(sheets, keys, data, causes, list(detectors) or None, tick)
    found = results(sheets, quizzes)
    runs, wrong = run_rows(found), confusions(found)
    if submission is not None:
        from trainwreck.evaluation.dataset.dataset import load
        from trainwreck.evaluation.pages.quiz.classroom.entry import submit_room

        folder = submit_room(submissions, facts, load(data), found)
    if out is not None:
        files = write_class(out, found, runs, wrong)
    if as_json:
        return print_json({"rows": found.rows, "runs": runs, "confusions": wrong})
    print_class(found.rows, runs)
    if out is not None:
        print(f"page: {files[0]}")
    if submission is not None:
        print(f"submission: {folder}")


def print_class(rows: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> None:
    """The class in the terminal: the table, and the five runs that most got wrong."""
    print_people(rows)
    print()
    print_table(
        ("most got wrong", "kind", "wrong", "of", "steps late", "named instead"),
        [
            (r["scenario"] or "(healthy)", r["kind"], r["wrong"], r["answered"], number(r["mean_delay"]),
             r["named_instead"] or None)
            for r in runs[:5]
        ],
    )  # fmt: skip


def print_people(rows: Sequence[dict[str, Any]]) -> None:
    """Players, room and detectors, each score with its interval."""
    print_table(
        ("name", "kind", "runs", "in-time recall", "stopped", "look-alikes", "W*", "cause", "family"),
        [(r["name"], r["kind"], r["runs"], *(row_interval_text(r, name) for name in SHOWN)) for r in rows],
    )
