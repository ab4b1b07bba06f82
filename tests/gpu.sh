#!/usr/bin/env bash
# GPU tests on a machine with CUDA and a PyTorch of its own; writes results/gpu-<date>/ (or $OUT).
# Without a network: put the missing wheels (pip download, or WHEELS=folder) beside the checkout first.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
out=${OUT:-results/gpu-$(date +%F)}
wheels=${WHEELS:-wheels}

"$python" -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "device: no CUDA device; allowed: a machine with one")'
"$python" -m venv --system-site-packages .venv-gpu
offline=()
if [ -d "$wheels" ]; then offline=(--no-index --find-links "$wheels"); fi
.venv-gpu/bin/python -m pip install --quiet "${offline[@]}" "setuptools>=77" wheel
.venv-gpu/bin/python -m pip install --quiet "${offline[@]}" --no-build-isolation -e ".[test]"
mkdir -p "$out"
.venv-gpu/bin/trainwreck doctor --json > "$out/environment.json"
.venv-gpu/bin/pytest -m gpu --junitxml="$out/tests.xml" | tee "$out/tests.txt"
