"""The command line: its commands by group, each loaded when it runs, and errors as one line."""

import errno
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click
from click.shell_completion import CompletionItem

from trainwreck.evaluation.errors import InputError, UnfinishedError, WorkerLostError, nearest, printable

# Command to its module in `trainwreck.commands` and its line of help, which no module need be loaded for.
GROUPS = {
    "Explore": {
        "list": ("explore", "List the scenarios of the catalogue."),
        "show": ("explore", "Print the page of a scenario."),
        "run": ("explore", "Train a scenario with its twin and its cure."),
        "gallery": ("explore", "Write one page with the curves of every scenario."),
        "quiz": ("quiz", "Guess the failure: play in a browser, grade answers."),
        "reproducer": ("explore", "Write a scenario as one plain PyTorch program."),
    },
    "Score": {
        "score": ("score", "Score detectors on a data set."),
        "leaderboard": ("score", "Score every built-in detector on a data set."),
        "compare": ("score", "Compare a detector with others by paired tests."),
        "transfer": ("score", "Compare the order of detectors on two boards, and what thresholds stop."),
        "report": ("score", "Write a report of a data set as one HTML file."),
        "submit": ("submissions", "Write a submission for the leaderboard."),
        "confirm": ("submissions", "Run the code of a submission again, on private seeds too."),
        "rescore": ("score", "Score stored alarms again, without telemetry."),
    },
    "Data": {
        "demo": ("data", "Generate, label, score and report a small data set."),
        "generate": ("data", "Train the runs of a plan as a labelled data set."),
        "label": ("data", "Measure visible steps and points of no return."),
        "reproduce": ("data", "Train a run again and compare it bitwise."),
        "diff": ("data", "Compare two data sets of one plan."),
        "import": ("logs", "Read training logs as a data set."),
        "export": ("logs", "Write runs in the formats of other tools."),
        "release": ("data", "Write a data set in the form for publication."),
    },
    "Live": {
        "diagnose": ("live", "Say what is wrong with a run, since when and why."),
        "watch": ("live", "Run detectors on the log of a training run."),
        "preflight": ("live", "Check a model and a batch before training."),
        "rescue": ("rescue", "Let policies act on runs under way, and score what they save."),
    },
    "Develop": {
        "verify": ("develop", "Prove scenarios on many seeds."),
        "audit": ("develop", "Test whether anything before the failure gives it away."),
        "equivalence": ("develop", "Find causes that no signal tells apart."),
        "learn": ("develop", "Train the detector `learned` on a data set."),
        "bench": ("develop", "Measure speed against named peers."),
        "doctor": ("develop", "Show the environment and what runs in it."),
    },
}
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
FUNCTIONS = {"list": "list_", "import": "import_"}  # of the commands that Python has another use for
RENAMED = {"class": "quiz grade"}
SHOWN = 300  # characters of a file's name in a message
INTERRUPTED = 130  # as shells report SIGINT
RESUMING = {"demo", "generate", "label", "verify"}  # commands that keep what they have done
UNFINISHED = 3
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)  # what a system has no more of
NO_TEMPORARY = "No usable temporary directory"  # of the tempfile module, which hides the reason
NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # before click 8.2 help is no error


class Group(click.Group):
    """The commands of `GROUPS`, with the nearest for one that is not there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"trainwreck.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, FUNCTIONS.get(cmd_name, cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            hint = nearest(args[0], COMMANDS) or "`trainwreck --help` lists them"
            raise InputError(f"unknown command {args[0]!r}; {_renamed(args[0]) or hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in COMMANDS if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _renamed(name: str) -> str:
    return f"it is now {RENAMED[name]!r}" if name in RENAMED else ""


@click.group(cls=Group, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trainwreck")
def cli() -> None:
    """Labelled failures of transformer training, and a benchmark for detectors.

    DIR is the folder of a data set, or `sample`, which ships with the package.
    `trainwreck COMMAND --help` describes a command.
    """


def main() -> None:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the terminal's encoding has no letter for is printed as its code
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(cli.main(prog_name="trainwreck", standalone_mode=False) or 0)
    except NO_ARGUMENTS as help_asked:
        print(help_asked.format_message())
        sys.exit(0)
    except InputError as error:
        print(f"trainwreck: {printable(error)}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("trainwreck: out of memory; allowed: less at a time, or a machine with more", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # of the system, at whatever file: full, read-only, a name that is too long
        is_full = error.errno in FULL or str(error).startswith(NO_TEMPORARY)
        if isinstance(error, ConnectionError):  # no file's: a pipe or a socket of the package's own
            raise
        place = f"{printable(error.filename, SHOWN)}: " if error.filename is not None else ""
        why = error.strerror or printable(error)
        cause = f"can't be written ({why})" if is_full else why
        print(f"trainwreck: {place}{cause}", file=sys.stderr)
        sys.exit(2)
    except click.UsageError as error:
        if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument) and error.ctx:
            print(" ".join(error.ctx.get_usage().split()), file=sys.stderr)
        print(f"trainwreck: {printable(_line(error))}", file=sys.stderr)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        resumes = not RESUMING.isdisjoint(sys.argv[1:2])
        print(f"trainwreck: interrupted{'; the same command goes on from here' if resumes else ''}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (WorkerLostError, UnfinishedError) as error:
        print(f"trainwreck: {printable(error)}", file=sys.stderr)
        sys.exit(UNFINISHED if isinstance(error, UnfinishedError) else 1)


def _line(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        path = error.ctx.command_path if error.ctx else "trainwreck"
        hint = nearest(error.option_name, error.possibilities or ()) or f"`{path} --help` lists them"
        return f"unknown option {error.option_name!r}; {hint}"
    return " ".join(error.format_message().split())


if __name__ == "__main__":
    main()
