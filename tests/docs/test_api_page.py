"""docs/api.md: every public name with a sentence and an example, and the examples run."""

import re
import subprocess
import sys
from pathlib import Path

import trainwreck

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
RUN = """
import doctest, pathlib, sys
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
lines = ["" if line.startswith("```") else line for line in text.splitlines()]
test = doctest.DocTestParser().get_doctest("\\n".join(lines), {}, "api.md", sys.argv[1], 0)
flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
result = doctest.DocTestRunner(optionflags=flags).run(test)
print(result.attempted, "examples")
sys.exit(result.failed > 0)
"""


def test_every_public_name_has_an_example():
    text = PAGE.read_text(encoding="utf-8")
    assert not [name for name in trainwreck.__all__ if f"`{name}`" not in text]
    examples = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    results = {"DataSet", "Leaderboard", "Scorecard"}  # what other names return
    assert not [name for name in trainwreck.__all__ if f"trainwreck.{name}" not in examples and name not in results]


def test_the_examples_run(tmp_path):
    """In a process and a folder of their own, since they write files there."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(PAGE)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 50
