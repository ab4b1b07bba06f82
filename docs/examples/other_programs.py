"""Programs with bugs, recorded by ModuleSignals, beside our scenarios: `python other_programs.py DIR PICTURE`.

DIR is a checkout of github.com/OrderLab/TrainCheck-Evaluation-Workloads (Jiang et al. 2025, "Training with confidence",
OSDI). Two of its programs and their repaired versions run unaltered, but on data made here and on the CPU: stand-ins
take the place of torchvision, of a pretrained EfficientNet and of `.cuda()`. They are stopped after some steps.
"""

import contextlib
import io
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import trainwreck

FOLDER = Path("silent-issue-detection/bug-reprod-scripts")
# Program, our scenario, and the most diagnostic signal.
PAIRS = (
    ("stackoverflow-60335387", "gradients_not_cleared", "grad_norm"),
    ("pytorch-forum-84911", "frozen_parameters", "layer_update_ratio"),
)
STEPS = 150


class EnoughError(Exception):
    """So many steps are recorded."""


class Made(torch.utils.data.Dataset):
    """Pictures: of each class a pattern, and noise. Stands for a data set of torchvision, with its arguments."""

    shape, classes = (1, 28, 28), 10

    def __init__(self, root: str = "", train: bool = True, download: bool = False, transform: object = None) -> None:
        self.patterns = torch.randn(self.classes, *self.shape, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return 64 * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = torch.randn(self.shape, generator=torch.Generator().manual_seed(1 + index))
        return self.patterns[index % self.classes] + 2 * noise, index % self.classes


class Coloured(Made):
    """The same in three channels, of a hundred classes."""

    shape, classes = (3, 32, 32), 100


class Small(nn.Module):
    """A small network with the names of an EfficientNet's parts."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = nn.Conv2d(3, 32, 3, stride=2), nn.BatchNorm2d(32)
        self._conv_head, self._bn1 = nn.Conv2d(32, 64, 3, stride=2), nn.BatchNorm2d(64)
        self._fc = nn.Linear(64 * 49, 1000)

    @classmethod
    def from_pretrained(cls, _: str) -> "Small":
        """With the weights of a seed: there are no others here."""
        torch.manual_seed(0)
        return cls()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [B, classes] of images [B, 3, 32, 32]."""
        found = torch.relu(self._bn1(self._conv_head(torch.relu(self._bn0(self._conv_stem(images))))))
        return self._fc(found.flatten(1))


class Anything(ModuleType):
    """A module whose every name is a function that does nothing."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def stand_ins() -> dict[str, ModuleType]:
    """What the programs import and we have not, by name."""
    datasets, network, whole = (ModuleType(n) for n in ("torchvision.datasets", "efficientnet_pytorch", "torchvision"))
    vars(datasets).update(MNIST=Made, CIFAR100=Coloured)
    vars(network).update(EfficientNet=Small)
    found = {"torchvision.datasets": datasets, "efficientnet_pytorch": network, "torchvision": whole}
    found |= {f"torchvision.{name}": Anything(f"torchvision.{name}") for name in ("transforms", "models")}
    vars(whole).update({name.split(".")[1]: module for name, module in found.items() if "." in name})
    return found


@contextlib.contextmanager
def imported(modules: dict[str, ModuleType]) -> Iterator[None]:
    """These are what an import finds, for a time; what else is imported meanwhile stays."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@contextlib.contextmanager
def recorded(rows: list[dict]) -> Iterator[None]:
    """Whatever is trained within adds a row a step: the loss, and what ModuleSignals measures around `step()`."""
    seen = SimpleNamespace(model=None, loss=None, signals=None)

    def forward(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        if isinstance(module, nn.CrossEntropyLoss):
            seen.loss = float(output.detach())
        else:
            seen.model = module  # the whole one comes last

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if seen.signals is None:
            layers = [part for part in seen.model.children() if next(part.parameters(), None) is not None]
            seen.signals = trainwreck.ModuleSignals(seen.model, optimizer, layers=layers)
        rows.append({"loss": seen.loss, **seen.signals.measure(updates=True)})

    def after(*_: object) -> None:
        rows[-1] |= seen.signals.updates()
        if len(rows) == STEPS:
            raise EnoughError

    hooks = register_module_forward_hook(forward), register_optimizer_step_pre_hook(before)
    hooks += (register_optimizer_step_post_hook(after),)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def signals_of(program: Path) -> dict[str, np.ndarray]:
    """Signals [T] or [T, layers] of a program's first steps, in a folder of its own, from seed 0."""
    rows: list[dict] = []
    torch.manual_seed(0)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, imported(stand_ins()), recorded(rows):
        os.chdir(folder)
        try:
            with (
                mock.patch.object(torch.Tensor, "cuda", lambda tensor, *_, **__: tensor),
                mock.patch.object(nn.Module, "cuda", lambda module, *_: module),
                mock.patch.object(np, "Inf", np.inf, create=True),  # a name that NumPy 2 has no more
                mock.patch.dict(os.environ),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.suppress(EnoughError),
            ):
                runpy.run_path(str(program), run_name="__main__")
        finally:
            os.chdir(here)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def draw(axes: np.ndarray, title: str, signal: str, bad: dict, good: dict) -> None:
    """The loss above, the most diagnostic signal below: thick with the bug, thin without. Prints both at the ends."""
    for panel, name in zip(axes, ("loss", signal), strict=True):
        for found, colour, width in ((bad, "tab:red", 3.0), (good, "tab:blue", 1.0)):
            values = np.asarray(found[name], float)[:STEPS]
            lines = panel.plot(values, color=colour, linewidth=width, alpha=0.7)
            lines[0].set_label("with the bug" if found is bad else "without")
            ends = ", ".join(
                f"{label} {np.round(values[at], 4).tolist()}" for label, at in (("first", 0), ("last", -1))
            )
            print(f"{title}: {name} {'with' if found is bad else 'without'} the bug: {ends}")
        panel.set(xlabel="step", ylabel=name)
        panel.legend()
    axes[0].set_title(title)


def main(checkout: Path, picture: Path) -> None:
    """Draw each program beside our scenario. Exit code 2 where the checkout has not all of them."""
    folders = {program: checkout.resolve() / FOLDER / program for program, _, _ in PAIRS}
    for file in (folder / name for folder in folders.values() for name in ("bug.py", "fixed.py")):
        if not file.is_file():
            print(f"DIR: {checkout} is not allowed, it has no {file.name} of {file.parent.name}", file=sys.stderr)
            sys.exit(2)
    figure, axes = plt.subplots(2, 2 * len(PAIRS), figsize=(15, 6), layout="constrained")
    for place, (program, scenario, signal) in enumerate(PAIRS):
        bug, fixed = (signals_of(folders[program] / name) for name in ("bug.py", "fixed.py"))
        draw(axes[:, 2 * place], program, signal, bug, fixed)
        ours = trainwreck.run(scenario, seed=0).traces
        draw(axes[:, 2 * place + 1], scenario, signal, ours["faulty"].signals, ours["twin"].signals)
    figure.savefig(picture, dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
