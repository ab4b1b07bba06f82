"""Synthetic logs of real runs: three sweeps, runs that fail in different ways, and an unlabelled one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trainwreck.evaluation.dataset.dataset import DataSet, load
from trainwreck.evaluation.logs.imported import import_logs

LABELS = """run,status,step,cause,cluster
calm.csv,healthy,,,a
wobble.csv,healthy,,,a
noisy.csv,healthy,,,b
broken.csv,failed,300,high_lr,a
late.csv,failed,400,the cat,b
silent.csv,failed,200,,c
strange.csv,unknown,,,
"""


def curve(name: str) -> list[float]:
    """Losses at steps 0, 10 ... 590."""
    loss = 4.0 - np.arange(60) / 30
    if name == "wobble":
        loss[20] = np.nan  # and comes back
    if name == "broken":
        loss[30:] = np.nan
    if name == "late":
        loss[[10, 45]] = np.inf  # before what its label says, and after it
    if name == "strange":
        loss[1] = np.nan
    return [float(value) for value in loss]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """The imported data set. `nonfinite_loss` alarms in wobble (200), broken (300), late (100, 450), strange (10)."""
    folder = tmp_path_factory.mktemp("logs")
    files = []
    for name in ("calm", "wobble", "noisy", "broken", "late", "silent", "strange"):
        file = folder / f"{name}.csv"
        rows = "".join(f"{10 * i},{value}\n" for i, value in enumerate(curve(name)))
        file.write_text(f"step,loss\n{rows}", encoding="utf-8")
        files.append(file)
    out = tmp_path_factory.mktemp("imported") / "real"
    import_logs(files, out)
    return load(out)


@pytest.fixture
def labels(tmp_path: Path) -> Callable[..., Path]:
    """The file of labels, with lines replaced: `labels(("old", "new"), ...)`."""

    def write(*changes: tuple[str, str]) -> Path:
        text = LABELS
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "said.csv").write_text(text, encoding="utf-8")
        return tmp_path / "said.csv"

    return write
