"""The kernels compile for an H200: what the interpreter lets pass, the compiler may not. No GPU is needed."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

CODE = """
import json, re, sys
from functools import partial
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from trainwreck.kernels.attention import tiles
from trainwreck.kernels.attention.triton import backward, forward, fp16_scores, launch, softmax_unshifted

NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
TYPES = {"p_doc": "*i32", "p_table": "*i32", "p_key": "*i64", "p_threshold": "*i64", "per_run": "fp32"}
MULTIPLY = ("wgmma.mma_async", "mma.sync")  # what tensor cores are told, in groups of four warps and in one
# Of the left operand [M, K] of a product on tensor cores: K, and how many neighbours of a row a thread has.
LEFT = re.compile(r"tt\\.dot .*?x(\\d+)x\\w+, #ttg\\.dot_op<{opIdx = 0, parent = #mma\\d*, kWidth = (\\d+)}>")
HEADS = ("p_q", "p_k", "p_v", "p_out", "p_d_out", "p_dq", "p_dk", "p_dv")


def built(kernel, dtype, tile, **constants):
    def kind(name):
        return "*" + NAMES[dtype] if name in HEADS else TYPES.get(name, "*fp32" if name.startswith("p_") else "i32")

    signature = {name: "constexpr" if name in constants else kind(name) for name in kernel.arg_names}
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    target = GPUTarget("cuda", 90, 32)
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "maxnreg": tile.registers}
    made = compile(ASTSource(kernel, signature, values), target=target, options=options)
    # Four threads have a row between them, in two parts.
    short = [left.group() for left in LEFT.finditer(made.asm["ttgir"]) if int(left[1]) < 8 * int(left[2])]
    cores = any(name in made.asm["ptx"] for name in MULTIPLY)
    return {"shared": made.metadata.shared, "tensor_cores": cores, "short": short}


def both(dtype, width, recipe=launch.RIGHT, plain=True, dropout=False, precision="ieee", length=1024):
    tile = tiles.choose(width, dtype, length, recipe.halves)
    shared = {
        "K": width, "BK": tiles.padded_width(width), "HEADS_K": 4 * width, "PLAIN": plain, "DOCUMENTS": True,
        "DROPOUT": dropout, "PRECISION": precision, "SCORES": recipe.scores,
    }
    return [
        built(
            forward.forward, dtype, tile.forward, ROWS=tile.forward.rows, STEP=tile.forward.step, STATS=True,
            FORBIDDEN=not plain, SHIFT=recipe.shift, **shared,
        ),
        built(
            backward.backward, dtype, tile.backward, ROWS=tile.backward.rows, STEP=tile.backward.step,
            GRADE=recipe.grade, FINISH=recipe.finish, **shared,
        ),
        built(
            backward.row_dots, dtype, tile.backward, ROWS=tile.backward.rows,
            **{name: shared[name] for name in ("K", "BK", "HEADS_K")},
        ),
    ]


cases = {
    "plain": lambda: both(torch.bfloat16, 64),
    "table": lambda: both(torch.bfloat16, 48, plain=False, dropout=True),
    "wide": lambda: both(torch.bfloat16, 128),
    "float32": lambda: both(torch.float32, 32),
    "float32_table": lambda: both(torch.float32, 48, plain=False, dropout=True),
    "tf32": lambda: both(torch.float32, 32, precision="tf32"),
    "float16": lambda: both(torch.float16, 64),
    "float16_table": lambda: both(torch.float16, 48, plain=False, dropout=True),
    "float16_wide": lambda: both(torch.float16, 128),
    "fp16_scores": lambda: both(torch.bfloat16, 64, fp16_scores.RECIPE, plain=False),
    "softmax_unshifted": lambda: both(torch.bfloat16, 64, softmax_unshifted.RECIPE, plain=False),
}
for dtype in NAMES:  # rows that are shorter than the smallest tile
    for plain in (False, True):
        name = f"short_{NAMES[dtype]}_{'plain' if plain else 'table'}"
        cases[name] = partial(both, dtype, 96, plain=plain, dropout=True, length=11)
cases["short_fp16_scores"] = lambda: both(torch.float32, 16, fp16_scores.RECIPE, plain=False, dropout=True, length=36)
cases["short_tf32"] = lambda: both(torch.float32, 16, plain=False, dropout=True, precision="tf32", length=11)
kernels = {name: cases[name]() for name in sys.argv[1:]}
print(json.dumps(kernels))
"""


SHORT = ("fp32_table", "fp32_plain", "bf16_table", "bf16_plain", "fp16_plain", "tf32")


@pytest.mark.parametrize(
    "cases",
    [
        ["plain", "table", "float16_table", "short_fp16_table", "short_fp16_scores"],
        pytest.param(["wide", "fp16_scores", "softmax_unshifted"], marks=pytest.mark.slow),
        pytest.param(["float32", "float32_table", "tf32", "float16", "float16_wide"], marks=pytest.mark.slow),
        pytest.param([*(f"short_{name}" for name in SHORT)], marks=pytest.mark.slow),
    ],
    ids=["main", "bfloat16", "others", "short"],
)
def test_kernels_and_variants_compile_and_fit(cases, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    words = [sys.executable, "-c", CODE, *cases]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout.splitlines()[-1])
    assert set(made) == set(cases)
    for name, kernels in made.items():
        assert all(kernel["shared"] <= 232_448 for kernel in kernels)  # bytes, of one multiprocessor
        assert not any(kernel["short"] for kernel in kernels[:2])  # a wrong product, without a word
        exact = name in ("float32", "float32_table", "short_fp32_table", "short_fp32_plain")  # which has none
        assert all(kernel["tensor_cores"] != exact for kernel in kernels[:2])
