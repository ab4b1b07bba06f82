"""The notebooks in git are what their sources say, without outputs, and blanks are where the sources put them."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "lessons"
NOTEBOOKS = sorted(FOLDER.rglob("*.ipynb"))


@pytest.fixture(scope="module")
def maker():
    """docs/lessons/notebooks.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("lesson_notebooks", FOLDER / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks its module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_notebooks_are_made_of_their_sources(maker):
    made = maker.files()
    assert sorted(made) == NOTEBOOKS
    assert len(made) == 12
    stale = [path.name for path, content in made.items() if path.read_text(encoding="utf-8") != content]
    assert stale == []  # python docs/lessons/notebooks.py


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_notebook_has_an_output(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_only_answers_are_filled_in(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [line.rstrip("\n") for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    fill = [line for line in lines if line.endswith("# fill in")]
    assert len(fill) >= 7
    assert {"..." in line for line in fill} == {path.parent == FOLDER}


@pytest.mark.parametrize(
    ("line", "blank"),
    [
        ("x = a + b  # fill in", "x = ...  # fill in"),
        ('    "P": f(1, 2),  # fill in', '    "P": ...,  # fill in'),
        ("    return x == 3  # fill in", "    return ...  # fill in"),
        ("x = a + b", "x = a + b"),
    ],
)
def test_blanks(maker, line, blank):
    assert maker.blanked(line) == blank


@pytest.mark.parametrize("line", ["f(x)  # fill in", "return  # fill in", "if x == 3:  # fill in"])
def test_a_line_without_a_value_can_not_be_filled_in(maker, line):
    with pytest.raises(maker.SourceError, match="nothing to fill in"):
        maker.blanked(line)


def test_answers_are_in_the_answers_alone(maker, tmp_path):
    source = tmp_path / "one.md"
    exercise, answer = "```python exercise\nx = 1  # fill in\n```", "```answer\nBecause.\n```"
    fences = f"{exercise}\n\n{answer}\n\n```python answers\nprint(x)\n```\n"
    source.write_text(f"# Title\n\nText.\n\n{fences}", encoding="utf-8")
    learner, teacher = (maker.notebook(source, answers=answers)["cells"] for answers in (False, True))
    assert ["".join(cell["source"]) for cell in learner] == ["# Title\n\nText.", "x = ...  # fill in"]
    assert ["".join(cell["source"]) for cell in teacher] == [
        "# Title: with answers\n\nText.", "x = 1  # fill in", "**Answer.** Because.", "print(x)",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["```python\nx = 1\n", "```bash\nls\n```\n"])
def test_a_fence_that_is_not_known_or_not_closed(maker, tmp_path, text):
    source = tmp_path / "one.md"
    source.write_text(f"# Title\n\n{text}", encoding="utf-8")
    with pytest.raises(maker.SourceError, match=r"one\.md:3: "):
        maker.cells(source)
