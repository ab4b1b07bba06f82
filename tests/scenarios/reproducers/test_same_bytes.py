"""A program prints the same bytes on one machine, whatever else runs there and however many threads it is offered."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainwreck.scenarios.reproducers.program import Program
from trainwreck.scenarios.reproducers.text import text as program_text
from trainwreck.scenarios.spec.registry import scenarios

LOOP = "for step in range(HEALTHY.steps):"


def side_by_side(file: Path, copies: int) -> set[tuple[int, str, str]]:
    """Exit codes and hashes of what copies print and keep that run at the same time, offered 1 thread, 2, ..."""
    running = []
    for copy in range(copies):
        offered = {"OMP_NUM_THREADS": str(copy + 1), "PYTHONHASHSEED": str(copy), "PYTHONPATH": ""}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [sys.executable, "-P", str(file), str(file.with_name(f"{copy}.npz"))]
        running.append(subprocess.Popen(words, env=os.environ | offered, **pipes))
    found = set()
    for copy, process in enumerate(running):
        out, errors = process.communicate(timeout=1800)
        assert out, errors.decode()[-500:]
        with np.load(file.with_name(f"{copy}.npz")) as numbers:
            kept = b"".join(name.encode() + numbers[name].tobytes() for name in sorted(numbers))
        found.add((process.returncode, hashlib.sha256(out).hexdigest(), hashlib.sha256(kept).hexdigest()))
    return found


def program_of(id: str, folder: Path, steps: int | None = None) -> Path:
    """The program's file, whole or with its first steps alone."""
    text, file = program_text(Program(id)), folder / f"{id}.py"
    if steps is not None:
        assert LOOP in text
        text = text.replace(LOOP, f"for step in range({steps}):")
    file.write_text(text, encoding="utf-8")
    return file


def test_four_copies_side_by_side_keep_the_same_numbers(tmp_path):
    """Twelve steps: threads change the last bits of the gradient norm in fewer, what is printed after hundreds."""
    assert len(side_by_side(program_of("fp16_attention_overflow", tmp_path, 12), 4)) == 1


@pytest.mark.reproducers
def test_four_copies_side_by_side_print_the_same_bytes_and_exit_with_0(tmp_path):
    ((code, _, _),) = side_by_side(program_of("fp16_attention_overflow", tmp_path), 4)
    assert code == 0


def test_one_thread_and_deterministic_algorithms_come_before_anything_is_drawn():
    for id in scenarios():
        lines = program_text(Program(id)).splitlines()
        threads = lines.index(next(line for line in lines if line.startswith("torch.set_num_threads(1)  # ")))
        assert lines[threads + 1].startswith("torch.use_deterministic_algorithms(True)  # ")
        assert not any(line.startswith(("def ", "class ", "SEED")) for line in lines[:threads]), id


@pytest.mark.reproducers
@pytest.mark.parametrize("id", scenarios())
def test_two_copies_of_the_first_steps_print_the_same_bytes(id, tmp_path):
    """To some steps past the cure, where everything of the program has been used; all of it takes hours."""
    program = Program(id)
    steps = min(program.base.steps, max(program.onset, program.cured or 0) + 12)
    assert len(side_by_side(program_of(id, tmp_path, steps), 2)) == 1
