"""No inode, no space or no file handle left is one line, wherever a file is made; it was a traceback."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from trainwreck.cli import main
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.files import locked


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_what_a_command_makes_on_the_way(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number), "/full/x")

    monkeypatch.setattr("trainwreck.cli.cli.main", full)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == f"trainwreck: /full/x: can't be written ({os.strerror(number)})\n"


def test_another_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("trainwreck.cli.cli.main", broken)
    with pytest.raises(BrokenPipeError):
        main()


def test_a_lock_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with (
        pytest.raises(InputError, match=r"out: can't be written \(No space left on device\)"),
        locked(tmp_path / "out" / ".lock", tmp_path / "out"),
    ):
        pytest.fail("it holds no lock")
