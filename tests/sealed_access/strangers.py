"""Safetensors files of unknown writers: our reader beside the safetensors library."""

from __future__ import annotations

import numpy as np

from attest.errors import AttestError
from attest.sealed.safetensors import load_tensors
from attest.sealed.tensor_header import DTYPE_BITS
from tests.sealed_access.making import Arrays, Plain, deserialize

__all__ = ["ARRAYS", "compare"]

ARRAYS: Arrays = {"w": np.arange(100, dtype=np.uint8), "v": np.zeros((0, 2), np.float32)}


def compare(content: bytes) -> None:
    """Require that what our reader takes is what the library takes; it may refuse more."""
    try:
        ours = load_tensors(Plain(content))
    except AttestError:
        return
    theirs = dict(deserialize(content))
    if ours.keys() != theirs.keys():
        raise RuntimeError(sorted(ours.keys() ^ theirs.keys()))
    for name, one in ours.items():
        kept_shape = DTYPE_BITS[theirs[name]["dtype"]] % 8 or list(one.shape) == theirs[name]["shape"]
        if one.tobytes() != bytes(theirs[name]["data"]) or not kept_shape:
            raise RuntimeError(name)
