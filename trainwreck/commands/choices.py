"""Types of options and arguments: what is allowed, and what the shell completes. Imports nothing heavy."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from trainwreck.evaluation.errors import unknown

# The modules that these are taken from load torch or numpy; a test holds that both agree.
PROFILES = ("full", "common", "standard", "minimal", "filtered")
ALL_PROFILES = (*PROFILES, "logged", "trainer")
TRACKS = ("blind", "informed")
AT = ("5%", "1%", "default", "none")
SPLITS = ("calibration", "train", "test", "private")
SEVERITIES = ("subtle", "clear", "severe")
SIZES = ("micro", "deep", "small")
DEVICES = ("cpu", "cuda")
IMPLS = ("reference", "triton", "cpp")
ENGINES = ("local", "ray", "slurm")
SLURM_CLUSTERS = ("slurm", "local")
PRODUCTS = ("fp32", "bf16")
PLANS = ("demo", "sample", "rescue", "standard", "full", "private", "wild", "coverage")
FAMILIES = (
    "optimisation",
    "schedule",
    "numerics",
    "data",
    "attention and position",
    "architecture and initialisation",
    "state, resume, evaluation",
    "distributed",
    "fine-tuning",
    "decoding",
    "preferences",
    "policies",
    "diffusion",
    "retrieval",
    "modalities",
    "components",
    "logging",
    "look-alikes",
)
LOG_FORMATS = ("csv", "jsonl", "tensorboard", "trainer_state", "lightning", "mlflow", "wandb", "neptune", "text")
LARGEST = 1e6  # of any number of seconds, minutes or GiB
BLANKS = ("nan", "missing")
LOG_MB, LOG_COLUMNS, LOG_LINE_KB = 2048.0, 20_000, 16_384.0
FOLLOWED_FORMATS = ("csv", "jsonl", "tensorboard")
EXPORT_FORMATS = ("tensorboard", "wandb", "mlflow", "trackio", "timeeval", "logged")
MEASUREMENTS = (
    "train",
    "generate",
    "score",
    "attention",
    "cuda",
    "rescue",
    "reliability",
    "reproducers",
    "starts",
    "fidelity",
    "language",
    "machines",
    "products",
    "objectives",
    "wild",
    "replay",
)


def scenario_ids() -> list[str]:
    """Ids of the catalogue's scenarios, by the names of their files."""
    return sorted(file.stem for file in _sources("scenarios", "catalogue/*/*.py") if file.stem != "__init__")


def detector_names() -> list[str]:
    """Names of the built-in detectors, by the text of their files."""
    texts = (file.read_text(encoding="utf-8") for file in _sources("evaluation", "detectors/**/*.py"))
    return sorted({name for text in texts for name in re.findall(r'^    name = "(\w+)"$', text, re.MULTILINE)})


def _sources(package: str, pattern: str) -> Iterable[Path]:
    from importlib import import_module

    return (file for folder in import_module(f"trainwreck.{package}").__path__ for file in Path(folder).glob(pattern))


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class OneOf(StringParamType):
    """One of some names; InputError with the nearest for any other. shown: the names stand in the help."""

    name = "name"

    def __init__(self, names: Iterable[str], *, shown: bool = True) -> None:
        self.names, self.shown = tuple(names), shown

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        return f"[{'|'.join(self.names)}]" if self.shown else None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.names:
            setting = max(param.opts, key=len).lstrip("-") if param else self.name
            raise unknown(setting, value, self.names)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _items(self.names, incomplete)


class Suggested(StringParamType):
    """A text for which some names are suggested, and files where none of them fits."""

    name = "text"

    def __init__(self, names: Callable[[], Iterable[str]], *, files: bool = False) -> None:
        self.names, self.files = names, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = _items(self.names(), incomplete)
        return found or ([CompletionItem(incomplete, type="file")] if self.files else [])


class ScenarioId(Suggested):
    """A scenario, or two joined by +. files: or a file. The registry reports unknown ids."""

    def __init__(self, *, files: bool = False) -> None:
        super().__init__(scenario_ids, files=files)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        first, plus, _ = incomplete.rpartition("+")
        names = (first + plus + name for name in scenario_ids())
        return _items(names, incomplete) if plus else super().shell_complete(ctx, param, incomplete)


class DataSetFolder(click.Path):
    """The folder of a data set; the word `sample` is the one that ships with the package."""

    name = "data set"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from trainwreck.evaluation.dataset.sample import named

        folder: Any = super().convert(value, param, ctx)
        return named(folder)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # bash shows folders only where no word fits, so that an empty word suggests folders.
        named = _items(["sample"], incomplete) if incomplete else []
        return [CompletionItem(incomplete, type="dir"), *named]


class Number(click.FloatRange):
    """A number in a range, by default of 0 to `LARGEST`: never NaN, which is in every range, nor infinity."""

    def __init__(self, low: float = 0.0, *, min_open: bool = False) -> None:
        super().__init__(low, LARGEST, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


PATH = click.Path(path_type=Path)
SEEDS = click.IntRange(0, 2**63 - 1)  # as `kernels.random` takes them
WORKERS = click.IntRange(1, 1024)
DATA_SET = DataSetFolder()
DETECTOR = Suggested(detector_names, files=True)
SCENARIO = ScenarioId()
