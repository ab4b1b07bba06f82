#!/usr/bin/env bash
# GPU tests and benchmarks on a machine with CUDA and a PyTorch of its own; writes results/gpu/<date>/ (or $OUT),
# and the tables of the benchmarks to results/ as well. A step that fails does not keep the next from running.
# STEPS="tests attention" runs these steps alone; steps: tests attention training sample sanitizer, and small, which
# runs only where it is named: some proofs at the size `small`, at its full length and batch.
#
# Without a network, first put wheels of what the machine lacks into wheels/ (or WHEELS=folder). Beside PyTorch,
# Triton, NumPy, pandas, pyarrow, SciPy, scikit-learn, statsmodels, matplotlib and pytest with hypothesis these are
# pure Python, so that any machine can fetch them:
#   pip download --only-binary=:all: --no-deps -c constraints.txt -d wheels \
#       hydra-core omegaconf plotext setuptools wheel
#   pip wheel --no-deps -c constraints.txt -w wheels antlr4-python3-runtime
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
out=${OUT:-results/gpu/$(date +%F)}
wheels=${WHEELS:-wheels}
bin=.venv-gpu/bin
steps="doctor ${STEPS:-tests attention training sample sanitizer}"

"$python" -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "device: no CUDA device; allowed: a machine with one")'
"$python" -m venv --system-site-packages .venv-gpu
# The machine's python may itself be of a virtual environment, whose packages a new one doesn't see.
"$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sep="\n")' |
    sort -u > "$($bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
offline=()
if [ -d "$wheels" ]; then offline=(--no-index --find-links "$wheels"); fi
install=("$bin/python" -m pip install --quiet --disable-pip-version-check "${offline[@]}")
"${install[@]}" "setuptools>=77" wheel
"${install[@]}" --no-build-isolation -e ".[gpu]" pytest hypothesis pytest-xdist
mkdir -p "$out"

failed=()
step() { # name, command
    local name=$1 began=$SECONDS
    shift
    if [[ " $steps " != *" $name "* ]]; then return; fi
    echo "== $name: $*" | tee -a "$out/log.txt"
    if "$@" 2>&1 | tee -a "$out/log.txt"; then
        echo "== $name: passed in $((SECONDS - began)) s" | tee -a "$out/log.txt"
    else
        failed+=("$name")
        echo "== $name: FAILED after $((SECONDS - began)) s" | tee -a "$out/log.txt"
    fi
}
bench() { # name
    $bin/trainwreck bench "$1" --record && cp -r "results/bench/$1" "$out/bench-$1"
}

step doctor bash -c "$bin/trainwreck doctor --json > '$out/environment.json'"
step tests $bin/python -m pytest -p no:benchmark -n auto -m gpu tests/gpu tests/kernels tests/models/test_parametrization.py \
    tests/scenarios/training/test_host_sync.py --junitxml="$out/tests.xml"
step attention bench attention
step training bench cuda
# A small data set from plan to labels, and how far its losses are from those of the same plan on a CPU.
data=runs/gpu-sample-$(git rev-parse --short HEAD 2> /dev/null || date +%F)
sample() {
    $bin/trainwreck generate sample --device cuda --out "$data" && $bin/trainwreck label "$data" || return 1
    cp "$data/manifest.json" "$out/sample-manifest.json"
    $bin/trainwreck diff evaluation/sample "$data" --json > "$out/sample-beside-cpu.json" || [ $? -eq 1 ] # not bitwise
}
step sample sample
step small $bin/trainwreck verify fp16_attention_overflow corrupt_tokens mask_missing mask_off_by_one mask_zeroed \
    rope_on_keys_only rope_wrong_frequency rope_wrong_offset capacity_too_small post_ln_depth \
    stale_optimizer_state benign_clean_resume benign_entropy_floor benign_single_spike benign_warm_restart \
    --severity clear --size small --device cuda --record # hours; resumes when called again
if command -v compute-sanitizer > /dev/null; then # slow: a few small shapes
    # Without PyTorch's own pool of memory, inside which an address past a tensor's end is not seen.
    step sanitizer env PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 9 \
        $bin/python -m pytest -p no:benchmark -m gpu tests/kernels -k "left_as_they_were or shared_by_runs or any_layout"
else
    echo "== sanitizer: left out, compute-sanitizer is not on this machine" | tee -a "$out/log.txt"
fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" | tee -a "$out/log.txt"
    exit 1
fi
