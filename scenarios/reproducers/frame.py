"""What stands around the plain program: its page, its imports, its settings."""

import re
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.dataset.schema import (
    DECODING,
    DENOISING,
    EVALUATIONS,
    MODALITIES,
    PAIRED,
    PREFERRED,
    RETRIEVAL,
    REWARDED,
)
from trainwreck.scenarios.data import reward
from trainwreck.scenarios.data.batches import entropy_floor
from trainwreck.scenarios.data.sources import captions, speech, tasks
from trainwreck.scenarios.data.sources import facts as facts_data
from trainwreck.scenarios.data.sources.chat import PROMPT, SHORTEST, Chat
from trainwreck.scenarios.data.sources.pairs import COARSE, GIVEN, WORDS
from trainwreck.scenarios.data.sources.refrain import TOKENS, VERSE
from trainwreck.scenarios.reproducers import signals as lines
from trainwreck.scenarios.reproducers.syntax import WIDTH, literal, value
from trainwreck.scenarios.reproducers.values import NotPlainError
from trainwreck.scenarios.spec.scenario import Scenario

if TYPE_CHECKING:
    from trainwreck.scenarios.reproducers.program import Program

FACTS = ("FACTS", "VALUES", "LENGTH", "STRETCH", "CHANGED", "QUESTION", "EXCHANGE", "KEY", "VALUE")
CAPTIONS = ("PATCHES", "COLOURS", "SHAPES", "TONES", "OBJECT", "PICTURE", "COLOUR", "SHAPE", "EXAMPLE")
NAMED = {
    "bisect": ("bisect_right",),
    "collections": ("Counter", "defaultdict", "namedtuple"),
    "functools": ("cache",),
    "types": ("SimpleNamespace",),
}


def page(program: "Program", leave_out: Sequence[str]) -> str:
    """The docstring: the scenario's page without some of its sections, and how the file is used."""
    entry = program.entry
    short = len(leave_out) > 1
    text = '"""' + textwrap.fill(f"{entry.id}: {entry.title()}", WIDTH - 3) + "\n" * (1 if short else 2)
    for name, content in entry.page().items():
        if name in leave_out or (name == "Signature" and entry.checked()):  # the function below has the clauses
            continue
        text += textwrap.fill(f"{name}: {' '.join(content.split())}", 118, subsequent_indent="    ") + "\n"
    level = f" at severity {program.severity.value}" if program.severity else ""
    how = (
        f"`python {entry.id}.py [FILE.npz]`, with PyTorch and NumPy alone, trains one small GPT with seed "
        f"{program.seed}{level}, prints key signals, and exits with 0 if all this holds. FILE.npz keeps every "
        "number."
    )
    if short:
        how = (
            f"`python {entry.id}.py [FILE.npz]` trains with seed {program.seed}{level}, and exits with 0 if all holds."
        )
    return text + "\n" * (not leave_out) + textwrap.fill(how, 118) + '\n"""\n\n'


def imports(code: str) -> str:
    """What the code needs."""
    plain = [m for m in ("dataclasses", "hashlib", "math", "sys", "tempfile", "zlib") if re.search(rf"\b{m}\.", code)]
    found = [f"import {m}" for m in plain]
    named = {
        "bisect": ["bisect_right"],
        "collections": ["Counter", "defaultdict", "namedtuple"],
        "functools": ["cache"],
        "types": ["SimpleNamespace"],
    }
    for module, names in named.items():
        used = [n for n in names if re.search(rf"\b{n}\b", code)]
        if used:
            found.append(f"from {module} import {', '.join(used)}")
    third = ["import numpy as np", "import torch"]
    if "dist." in code:
        third += ["import torch.distributed as dist", "import torch.multiprocessing as mp"]
    third.append("import torch.nn.functional as F")
    if "checkpoint(" in code:
        third.append("from torch.utils.checkpoint import checkpoint")
    return "\n".join(found) + "\n\n" + "\n".join(third) + "\n"


# At the head of the file, which the processes of several ranks import too.
THREADS = """
torch.set_num_threads(1)  # the same bytes on one machine whatever else runs on it: one thread,
torch.use_deterministic_algorithms(True)  # since the order of a sum decides its last bits, which training amplifies
"""


def head(program: "Program", body: str, facts: dict[str, Any]) -> str:
    """One thread, and the settings: what every run starts from, when what sets in, and the language."""
    names = sorted(set(re.findall(r"\b(?:c|setup|model|HEALTHY)\.([a-z]\w*)", body)))
    healthy = program.told["healthy"]
    changed = {k for t in program.told.values() for k, v in t.items() if v != healthy[k]}
    silent = changed - set(names)
    if silent:
        raise NotPlainError(f"reproducer: {min(silent)}, which this scenario changes, is not in the plain program")
    items = [f"{name}={value(name, healthy[name])}" for name in names if name in healthy]
    settings = textwrap.fill(", ".join(items) + ",", WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    text = f"{THREADS}SEED = {program.seed}\n"
    if program.cured is None:
        text += f"ONSET = {program.onset}  # first step under it\n"
    else:
        text += f"ONSET, CURED = {program.onset}, {program.cured}  # first steps under the fault and under the cure\n"
    if program.planned is not None:
        text += f"PLANNED = {program.planned}  # first step after what every run has planned\n"
    text += f"TOLERANCE = {program.entry.tolerance}"
    usual = (
        "healthy runs of other seeds differ by as much"
        if program.entry.tolerance >= Scenario.tolerance
        else "the same weights, evaluated otherwise"
    )
    text += f"  # nats between final losses: {usual}\n"
    if program.entry.own_twin:
        text += f"ENTROPY = {entropy_floor(program.base)!r}  # of the held-out rows, nats a token\n"
    telling = [] if program.entry.telling in ("loss", *lines.RANKS) else [program.entry.telling]
    steps = _steps(program)
    text += f"TELLING, STEPS = {('loss', *telling)!r}, {steps!r}\n".replace("'", '"')
    text += "HEALTHY = SimpleNamespace(\n" + textwrap.indent(settings, "    ") + "\n)  # fmt: skip\n"
    text += 'Batch = namedtuple("Batch", "inputs targets weights documents")  # [B, T] each\n'
    if facts["decoding"]:
        text += f"VERSE, TOKENS = {VERSE}, {TOKENS}  # of a verse, and in the order that verses follow\n"
        known = [n for n in ("validation_loss", *DECODING) if n != "neighbour_gap" or n in facts["signals"]]
        words = textwrap.fill(", ".join(map(literal, known)) + ",", WIDTH - 4)
        return text + "DECODED = (\n" + textwrap.indent(words, "    ") + "\n)  # fmt: skip\n"
    if facts["speech"]:
        return text + f"WORDS, SOUNDS, SHORTEST = {speech.WORDS}, {speech.SOUNDS}, {speech.SHORTEST}  # of speech\n"
    if facts["retrieval"]:
        return (
            text
            + _sizes_of(facts_data, FACTS, "of the store")
            + f"RETRIEVED = {('validation_loss', *RETRIEVAL)!r}\n".replace("'", '"')
        )
    if facts["modalities"]:
        text += _sizes_of(captions, CAPTIONS, "of pictures")
        return text + f"BY_MODALITY = {('validation_loss', *MODALITIES)!r}\n".replace("'", '"')
    if facts["pairs"]:
        text += f"WORDS, GIVEN, COARSE = {WORDS}, {GIVEN}, {COARSE}  # of words, of given tokens; a share\n"
        text += f"PREFERRED = {literal(PREFERRED)}\n"
        return text + f"EVALUATED = {literal(('validation_loss', *PAIRED))}\n"
    if facts["rewarded"]:
        optional = {
            "clip_share": facts["repeated"],
            "value_loss": facts["critic"],
            "groups_without_variance": facts["evenness"],
        }
        known = [*REWARDED[:4], *(name for name, there in optional.items() if there)]
        return text + _sizes_of_tasks() + f"REWARDED = {literal(tuple(known))}\n"
    if facts["diffusion"]:
        known = ["validation_loss", *(n for n in DENOISING if n != "sample_violations" or n in facts["signals"])]
        text += f"DENOISED = ({', '.join(map(literal, known))})\n"
    sizes: dict[str, float] = {"CONTENT": _of_all(facts, "content"), "TOPICS": 6}
    sizes |= {"NAMES": 3, "ATTRIBUTES": 6} if facts["names"] else {}
    sizes |= {"OPERATORS": _of_all(facts, "operators")} if facts["operators"] else {}
    sizes |= {"NOISE": 0.05} if facts["structures"] or facts["chat"] else {}
    text += f"{', '.join(sizes)} = {', '.join(map(str, sizes.values()))}  # of the synthetic language\n"
    if facts["chat"]:
        ids = Chat()
        text += f"PROMPT, SHORTEST = {PROMPT}, {SHORTEST}  # tokens of a prompt, and of the shortest answer\n"
        text += f"STOP, TURN, END, PAD = {ids.stop}, {ids.turn}, {ids.end}, {ids.pad}  # ids beside the language's\n"
    rows = []
    for name, spec in facts["specs"].items():
        fields = {"tokens": spec.vocabulary, "bigram_share": spec.bigram_share, "shortest": spec.shortest}
        fields["longest"] = spec.longest
        if facts["sharpened"]:
            fields["sharpness"] = spec.sharpness
        if facts["triggers"] or facts["names"]:
            fields["lookbacks"] = spec.lookbacks
        if facts["triggers"]:
            fields["p_trigger"] = spec.p_trigger
        if facts["names"] or facts["operators"]:
            fields["p_name"] = spec.p_name
        if facts["operators"]:
            fields["p_operator"] = spec.p_operator
        row = f'"{name}": SimpleNamespace(' + ", ".join(f"{k}={v}" for k, v in fields.items()) + "),"
        rows.append(row)
    if len(rows) == 1 and len(rows[0]) < WIDTH - 16:
        return text + f"DIALECTS = {{{rows[0][:-1]}}}\n"
    filled = [textwrap.fill(row, WIDTH, initial_indent="    ", subsequent_indent="        ") for row in rows]
    return text + "DIALECTS = {\n" + "\n".join(filled) + "\n}  # fmt: skip\n"


def _of_all(facts: dict[str, Any], size: str) -> int:
    """A size that all languages of a program have."""
    found = {int(getattr(spec, size)) for spec in facts["specs"].values()}
    if len(found) > 1:
        raise NotPlainError(f"reproducer: languages with other numbers of {size} are not in the plain program")
    return found.pop()


def _sizes_of(module: ModuleType, names: tuple[str, ...], of: str) -> str:
    """A line with constants of a module of data."""
    return f"{', '.join(names)} = {', '.join(str(getattr(module, name)) for name in names)}  # {of}\n"


def _sizes_of_tasks() -> str:
    names = ("TOPICS", "OWN", "WORDS", "TOPIC", "LEVEL", "END", "GIVEN", "SHORTEST", "ENDS", "COST", "LEVELS")
    found = {name: getattr(tasks, name) for name in names}
    found |= {name: getattr(reward, name) for name in ("SHARPNESS", "RIDGE", "NEWTON")}
    parts = (list(found)[:8], list(found)[8:])
    return "".join(f"{', '.join(part)} = {', '.join(str(found[name]) for name in part)}\n" for part in parts)


def _steps(program: "Program") -> tuple[int, ...]:
    """The steps that are printed: around onset and cure, and on the way to the end."""
    last, every = program.base.steps - 1, program.base.evaluation.every
    turns = [program.onset] if program.cured is None else [program.onset, program.cured]
    found = {0, program.onset - 1, program.onset + 1, last // 2, 3 * last // 4}
    found |= {step + later for step in turns for later in (0, 10)}
    if program.entry.telling in EVALUATIONS:  # which most steps don't have
        found = {step // every * every + later for step in found for later in (0, every)}
    return (*sorted(step for step in found if 0 <= step < last), last)
