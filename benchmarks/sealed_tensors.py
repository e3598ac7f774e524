"""Loading the tensors of a sealed file against the safetensors library on the plain one."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.numpy as peer

from attest.sealed import FileSource, SealedReader, load_tensors, seal_file
from benchmarks.measure import Figure, interleaved_ratio

__all__ = ["load_ratio"]

KEY, AAD = bytes(range(32)), b"benchmark"
LARGE, SMALL = (30_000, 384), (384, 384)
"""As a sentence-embedding model has them: one table of words, and many small matrices."""


def _ours(sealed: Path) -> dict[str, np.ndarray]:
    return load_tensors(SealedReader(FileSource(sealed), key=KEY, associated_data=AAD))


def load_ratio(*, matrices: int = 72, rounds: int = 15) -> Figure:
    """Return how many times as long a sealed file takes as a plain one that needs no decryption. There is no bar."""
    random = np.random.default_rng(1)
    arrays = {"words": random.standard_normal(LARGE, dtype=np.float32)}
    arrays.update({f"layer {at}": random.standard_normal(SMALL, dtype=np.float32) for at in range(matrices)})
    size = sum(one.nbytes for one in arrays.values())
    with tempfile.TemporaryDirectory() as scratch:
        plain, sealed = Path(scratch, "plain"), Path(scratch, "sealed")
        peer.save_file(arrays, plain)
        seal_file(plain, sealed, key=KEY, associated_data=AAD, random=os.urandom)
        for name, one in _ours(sealed).items():
            assert np.array_equal(one, arrays[name])
        ratio, ours, theirs = interleaved_ratio(
            partial(_ours, sealed), partial(peer.load_file, plain), rounds=rounds, times=1
        )
    detail = f"{size / 1e6:.0f} MB in {len(arrays)} tensors: {ours * 1e3:.1f} ms sealed, {theirs * 1e3:.1f} ms plain"
    return Figure(id="sealed-safetensors-load", value=ratio, bar=None, better="lower", detail=detail)
