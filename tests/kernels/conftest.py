"""Triton kernels on machines without a GPU: in Triton's interpreter, which NumPy carries out."""

import os
from importlib.util import find_spec

import torch

if not torch.cuda.is_available():
    # Read where a kernel is defined, Triton's own included, so it has to stand before the first import.
    os.environ.setdefault("TRITON_INTERPRET", "1")

if find_spec("triton"):
    from triton.runtime import interpreter

    patch_lang_tensor = interpreter._patch_lang_tensor

    def patch_with_index(tensor, scope):
        """Triton 3.6 takes a loop's bounds by int(array of one number), which NumPy 2.4 refuses."""
        patch_lang_tensor(tensor, scope)
        tensor.__index__ = lambda self: self.handle.data.item()

    interpreter._patch_lang_tensor = patch_with_index
