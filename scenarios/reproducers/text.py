"""The text of a plain program: templates filled in, and the page above them."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from trainwreck.scenarios.reproducers import facts, frame
from trainwreck.scenarios.reproducers.program import Program

PARTS = {
    "decode": "decoding",
    "prefer": "pairs",
    "reward": "rewarded",
    "diffuse": "diffusion",
    "retrieve": "retrieval",
    "weigh": "modalities",
    "transcribe": "transcription",
    "ranks": "ranks",
}  # template, and who has it
LONGEST = 249  # lines of a file
# Where a program is too long: sections of the page that are left out, and blank lines that are.
TIGHTER = (
    ((), ""),
    (("Realism",), ""),
    (("Realism",), r"\n(?=\n\n)"),
    (("Realism", "Injection"), r"\n(?=\n\n)"),
    (("Realism", "Injection"), r"\n(?=\n\n)|\n(?=\n )"),
)


def text(program: Program) -> str:
    """The file, of at most LONGEST lines where that can be had."""
    entry, harvest = program.entry, program.harvest
    places = program.places()
    if entry.has_signature:
        harvest.function(type(entry).signature, {"self": entry})
    known = facts.gathered(program, places) | places | {"wide": max(15, len(f"  faulty {entry.telling}"))}
    more = [name for name, part in PARTS.items() if known[part]]
    names = ("data", "model", "train", *more, "main")
    made = [_environment().get_template(f"{name}.py.jinja").render(known) for name in names]
    constants = "".join(f"{name} = {value}\n" for name, value in harvest.constants.items())
    own = ("\n\n" + constants if constants else "") + known["own"]
    body = spaced("".join([*made[:2], own, *made[2:]]))
    code = frame.head(program, body, known) + "\n\n" + body.lstrip("\n")
    found = ""
    for leave_out, tight in TIGHTER:
        found = frame.page(program, leave_out) + frame.imports(code) + (re.sub(tight, "", code) if tight else code)
        if found.count("\n") <= LONGEST:
            break
    return found


@cache
def _environment() -> Environment:
    """Templates are compiled once."""
    return Environment(
        loader=PackageLoader("trainwreck.scenarios.reproducers", "."),
        undefined=StrictUndefined,
        line_statement_prefix="#:",
        trim_blocks=True,
        keep_trailing_newline=True,
    )


def spaced(body: str) -> str:
    """Blank lines as usual: two between functions, one before a function within a function, else none."""
    body = re.sub(r"\n+( {8,}\S)", r"\n\1", body)  # where a template had nothing to say
    body = re.sub(r"\n+((?:@|def |class |if __name__|PLACES, )[^\n]*)", r"\n\n\n\1", body)
    body = re.sub(r"(\n@\S+)\n+def ", r"\1\ndef ", body)
    return re.sub(r"(\n        [^\n]+)\n+    def ", r"\1\n\n    def ", body)
