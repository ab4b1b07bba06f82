"""The lessons run from top to bottom, with every answer right, and without answers with every exercise open."""

import asyncio
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.lessons

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "lessons"
NOTEBOOKS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.ipynb"))
CPU_SECONDS = 180.0  # of the kernel, which trains on one core: what a quiet machine takes
CELL_SECONDS = 900.0  # wall clock; a cell that hangs


def executed(path, folder):
    """The notebook as it is after its cells ran in a kernel, and the kernel's processor time in seconds."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell("import time\n\nprint(time.process_time())"))
    where = {"metadata": {"path": str(folder)}}  # a learner's folder, not the repository's
    client = nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=where)
    asyncio.run(client.async_execute())
    seconds = float(notebook.cells.pop().outputs[0].text)
    return notebook, seconds


def printed(notebook):
    """Everything that the cells printed to stdout or stderr, line by line."""
    streams = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "stream"]
    return "".join(stream.text for stream in streams).splitlines()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_lesson_runs_from_top_to_bottom(name, tmp_path):
    notebook, seconds = executed(FOLDER / name, tmp_path)
    print(f"{name}: {seconds:.0f} s of processor time")
    lines = printed(notebook)
    verdicts = [found[1] for line in lines if (found := re.search(r": (right|open|not right yet)\b", line))]
    questions = sum("# fill in" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert set(verdicts) == {"right" if name.startswith("answers/") else "open"}
    assert len(verdicts) >= questions > 5
    assert not [line for line in lines if "Warning" in line]
    drawn = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(drawn) >= 4
    assert seconds < CPU_SECONDS
