"""Compile the fused kernels for a Hopper GPU, which needs none; prints one line a kernel. Run by test_compiles.py.

The arguments are declared as a launch would find them: pointers, and lengths that are multiples of 16.
"""

import re
from collections.abc import Iterator
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from trainwreck.kernels.cross_entropy import triton as cross_entropy
from trainwreck.kernels.cross_entropy import triton_buckets as buckets
from trainwreck.kernels.norms import triton as norms
from trainwreck.kernels.rotary import triton as rotary
from trainwreck.kernels.units import triton as units

HOPPER = GPUTarget("cuda", 90, 32)


def cases() -> Iterator[tuple[Any, dict[str, str], dict[str, Any], int]]:
    """Kernel, types of its run-time arguments in order, constants, warps."""
    chunk = {"BT": norms.TILE, "TILES": norms.CHUNK // norms.TILE, "ALIGN": norms.ALIGN}
    for dtype in ("fp32", "bf16", "fp16"):
        types = f"*{dtype} *i64 *fp32 *i32 *i32 *i32 i32 i32"
        yield norms.chunk_statistics, types, chunk, norms.WARPS
    yield (
        norms.gather_chunks,
        "*i64 *fp32 *i32 *i32 *i32 *fp32 *fp32 *fp32 *fp32 i32 i32",
        {"BC": norms.SECOND_TILE},
        norms.WARPS,
    )
    yield norms.chunk_ratios, "*fp32 *fp32 *fp32 *i64 *fp32 i32 i32", chunk, norms.WARPS
    yield norms.gather_ratios, "*i64 *i64 *fp32 *fp32 i32 i32", {"BC": norms.SECOND_TILE}, norms.WARPS
    yield from of_units()
    for dtype in ("fp32", "bf16", "fp16"):
        types = " ".join([f"*{dtype}"] * 4 + ["*fp32 *fp32 i32 i32"])
        for width, back in ((64, False), (64, True), (128, False), (10, True), (2, False)):
            block = max(2, triton.next_power_of_2(width))
            shape = {"H": 12, "K": width, "BT": rotary.TILE // block, "BK": block, "BH": rotary.HEADS, "BACK": back}
            yield rotary.rotate, types, shape, rotary.WARPS
        for vocabulary in (2, 64, 4096, 50257, 50304):
            rows, columns = cross_entropy.tile(vocabulary)
            shape = {"V": vocabulary, "BR": rows, "BV": columns}
            types = f"*{dtype} *i64 *fp32 *fp32 *fp32 *fp32 *fp32 i32"
            yield cross_entropy.losses, types, {**shape, "LARGEST": True}, cross_entropy.WARPS
            types = f"*{dtype} *i64 *fp32 *fp32 *fp32 *fp32 *{dtype} i32"
            yield cross_entropy.gradient, types, shape, cross_entropy.WARPS
    types = "*bf16 *i64 *fp32 *fp32 *fp32 *bf16 i32"
    for unused in ("p_d_nll", "p_d_log_z"):
        shape = {"V": 64, "BR": 64, "BV": 64, unused: None}
        yield cross_entropy.gradient, types, shape, cross_entropy.WARPS
    shape = {"T": 64, "POSITIONS": 8, "BUCKETS": 15, "BM": buckets.TILE, "BK": 16}
    yield buckets.bucket_sums, "*fp32 *fp32 *i64 *fp32 i32", shape, buckets.WARPS


def of_units() -> Iterator[tuple[Any, dict[str, str], dict[str, Any], int]]:
    """Norms, GELU, and statistics of the stream."""
    floats = " *fp32"
    for width in (32, 64, 100, 256, 768):
        for centred, gain, shift in ((True, True, True), (False, True, False), (True, False, False)):
            rows, wide = units.tile(768, width)
            shape = {"ROWS": rows, "BD": wide, "CENTRED": centred, "GAIN": gain, "SHIFT": shift, "D": width}
            yield units.normalise, f"{6 * floats} i32 fp32", shape, units.WARPS
            yield units.normalise_back, f"{8 * floats} i32 i32", shape, units.WARPS
    for dtype in ("fp32", "bf16", "fp16"):
        for width in (64, 256, 3072):
            rows, wide = units.tile(768, min(width, units.COLUMNS))
            shape = {"ROWS": rows, "BF": wide, "TILES": units.TILES, "F": width}
            yield units.gelu_forward, f"*{dtype} *{dtype} *fp32 i32 i32", shape, units.WARPS
        yield units.gelu_backward, f"*{dtype} *{dtype} *{dtype} i32", {"BT": units.TILE}, units.WARPS
    parts = {"PARTS": units.PARTS}
    shape = {"BT": units.TILE, "TILES": units.TILES, **parts}
    yield units.describe_chunks, "*fp32 *fp32 i32 i32", shape, units.WARPS
    yield units.gather_described, "*fp32 *fp32 i32 i32", {"BC": units.SECOND_TILE, **parts}, 1


def compiled(kernel: Any, types: str, constants: dict[str, Any], warps: int) -> Any:
    """The kernel as machine code, with its stages."""
    names: list[str] = kernel.arg_names
    given = iter(types.split())
    signature = {name: "constexpr" if name in constants else next(given) for name in names}
    assert next(given, None) is None
    fixed = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name not in constants}
    source = ASTSource(kernel, signature, fixed, aligned)
    return triton.compile(source, target=HOPPER, options={"num_warps": warps})


def main() -> None:
    """Compile them all."""
    for kernel, types, constants, warps in cases():
        made = compiled(kernel, types, constants, warps)
        wide = len(re.findall(r"(?:ld|st)\.global\S*\.v4", made.asm["ptx"]))
        print(f"{kernel.__name__} {types.split()[0]} {constants}: {wide} wide, {made.metadata.shared} bytes shared")


if __name__ == "__main__":
    main()
