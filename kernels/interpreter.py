"""Triton's interpreter, which runs kernels on a CPU by NumPy, as this project's kernels need it."""

import triton
from triton.runtime import interpreter

INTERPRETED = bool(triton.knobs.runtime.interpret)  # as it was when the kernels were made


def _with_index(patch: object) -> object:
    def patched(tensor, scope):  # type: ignore[no-untyped-def]
        patch(tensor, scope)  # type: ignore[operator]
        tensor.__index__ = lambda self: self.handle.data.item()

    return patched


if INTERPRETED:
    # Triton 3.6 takes a loop's bounds by int() of an array of one number, which NumPy 2.4 refuses.
    interpreter._patch_lang_tensor = _with_index(interpreter._patch_lang_tensor)
