"""Judging what strangers write: our reader beside the safetensors library; headers behind a signature that holds."""

from __future__ import annotations

import numpy as np

from attest.errors import AttestError
from attest.sealed.cryptotensors import open_cryptotensors
from attest.sealed.safetensors import load_tensors
from attest.sealed.tensor_header import DTYPE_BITS
from tests.sealed_access.cryptotensors_made import SIGNER, Made, compact, make, master
from tests.sealed_access.making import Arrays, Plain, deserialize

__all__ = ["ARRAYS", "compare", "parts", "signed_parts"]

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


def parts(made: Made) -> bytes:
    """Return the three texts of a CryptoTensors header, NUL between them."""
    return b"\0".join(compact(one).encode() for one in (made.keys, made.encryption, made.policy))


def signed_parts(data: bytes) -> None:
    """Read a file whose three texts these are, signed by a trusted key: the signature stops no fuzzer then."""
    texts = [*data.decode("utf-8", "replace").split("\0"), "", "", ""][:3]
    names = ("__crypto_keys__", "__encryption__", "__policy__")
    made = make(ARRAYS)
    content = made.file(change=lambda document: document["__metadata__"].update(zip(names, texts, strict=True)))
    with open_cryptotensors(
        Plain(content), key=master(), trusted=(SIGNER.public_key(),), policy=lambda text: "x" in text
    ) as tensors:
        tensors.load()
