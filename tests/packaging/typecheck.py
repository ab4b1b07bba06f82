"""Type-check an installed copy: the checker sees the mapped namespace only once it is a real package."""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """mypy's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*install, "--target", folder, str(ROOT)], check=True)
        mypy = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "trainwreck"]
        return subprocess.run(mypy, cwd=folder, env=_environment(folder), check=False).returncode


def _environment(folder: str) -> dict[str, str]:
    import os

    return {**os.environ, "MYPYPATH": folder, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}


if __name__ == "__main__":
    sys.exit(main())
