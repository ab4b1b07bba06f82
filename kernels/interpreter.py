"""Triton's interpreter, which runs kernels on a CPU by NumPy, as this project's kernels need it."""

from functools import cache
from typing import Any

import triton


@cache
def mend() -> None:
    """Let a loop run to a bound that was computed: Triton 3.6 takes int() of an array, which NumPy 2.4 refuses."""
    if not triton.knobs.runtime.interpret:
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def with_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        tensor.__index__ = lambda self: self.handle.data.item()

    interpreter._patch_lang_tensor = with_index
