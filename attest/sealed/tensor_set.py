"""Tensors of a whole sealed model: one safetensors file, or shards that an index names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from typing import Any, Final, Protocol

from attest.context_managers import ClosedOnExit
from attest.encoding import json_value
from attest.errors import ConfigurationError, EvidenceError, SealedFileError
from attest.sealed.arrays import Framework
from attest.sealed.safetensors import Progress, TensorFile, TensorSlice, unknown_tensor
from attest.sealed.sources import Readable, read_at_most
from attest.sealed.tensor_header import TensorInfo

INDEX_NAME: Final = "model.safetensors.index.json"
SINGLE_NAME: Final = "model.safetensors"
MAX_INDEX_BYTES: Final = 64 << 20
"""Room for some hundred bytes for each of tens of thousands of tensors."""
MAX_SHARDS: Final = 10_000


class ModelFiles(Protocol):
    """The files of a model, such as ``SealedDirectory``."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def entries(self) -> Mapping[str, object]:
        """Its files by their paths."""
        ...

    def open(self, path: str, /) -> Readable:
        """Open a file."""
        ...


class TensorSet(ClosedOnExit):
    """The tensors of several files as one set, which closes them; see ``TensorFile``."""

    def __init__(self, files: Mapping[str, TensorFile]) -> None:
        self._files = dict(files)
        self._homes = {name: file for file in self._files.values() for name in file.header.tensors}

    def close(self) -> None:
        """Close the files; arrays stay valid."""
        with ExitStack() as closing:
            for file in self._files.values():
                closing.callback(file.close)

    def keys(self) -> list[str]:
        """Return the names of all tensors, sorted."""
        return sorted(self._homes)

    def info(self, name: str) -> TensorInfo:
        """Return the header's entry for a tensor; errors as ``TensorFile.info``."""
        return self._home(name).info(name)

    def get_tensor(self, name: str) -> Any:  # noqa: ANN401  an array of the framework
        """Read a tensor; errors as ``TensorFile.get_tensor``."""
        return self._home(name).get_tensor(name)

    def get_slice(self, name: str) -> TensorSlice:
        """Return a lazily read tensor; errors as ``TensorFile.get_slice``."""
        return self._home(name).get_slice(name)

    def load(self, names: Iterable[str] | None = None, *, progress: Progress | None = None) -> dict[str, Any]:
        """Read several tensors, file by file; errors as ``TensorFile.load``."""
        wanted = None if names is None else set(names)
        for name in wanted or ():
            self._home(name)
        arrays: dict[str, Any] = {}
        before = 0
        for file in self._files.values():
            mine = file.header.tensors.keys() if wanted is None else file.header.tensors.keys() & wanted
            arrays.update(file.load(mine, progress=_shifted(progress, before)))
            before += sum(file.header.tensors[name].nbytes for name in mine)
        return {name: arrays[name] for name in sorted(arrays)}

    def _home(self, name: str) -> TensorFile:
        file = self._homes.get(name)
        if file is None:
            raise unknown_tensor(name, "the model", self._homes)
        return file


def open_model(model: ModelFiles, *, framework: Framework = "numpy") -> TensorSet:
    """Open the tensors of a model: ``model.safetensors``, or the shards in its index.

    Raises:
        SealedFileError: ``safetensors-malformed``, ``safetensors-dtype-unknown`` or ``safetensors-index-mismatch``: the
            index is malformed, or disagrees with the shards.
        ConfigurationError: ``safetensors-missing``: the model has neither file; ``tensor-framework-unavailable``.
        AttestError: as opening and reading raise.
    """
    if INDEX_NAME not in model.entries:
        if SINGLE_NAME not in model.entries:
            raise ConfigurationError(
                f"{model.name} has neither {SINGLE_NAME} nor {INDEX_NAME}",
                code="safetensors-missing",
                hint="open a file of another name with open_tensors",
            )
        return TensorSet({SINGLE_NAME: TensorFile(model.open(SINGLE_NAME), framework=framework)})
    homes = _read_index(model)
    with ExitStack() as opened:
        files: dict[str, TensorFile] = {}
        for path in sorted(set(homes.values())):
            if path not in model.entries:
                raise _index_mismatch(f"a shard of the model, not {path[:200]!r}")
            files[path] = opened.enter_context(TensorFile(model.open(path), framework=framework))
        _require_agreement(homes, files)
        opened.pop_all()
        return TensorSet(files)


def load_model(
    model: ModelFiles,
    *,
    names: Iterable[str] | None = None,
    framework: Framework = "numpy",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read all or some tensors of a model; see ``open_model``."""
    with open_model(model, framework=framework) as tensors:
        return tensors.load(names, progress=progress)


def _shifted(progress: Progress | None, before: int) -> Progress | None:
    return None if progress is None else lambda done: progress(before + done)


def _read_index(model: ModelFiles) -> dict[str, str]:
    """Return the path of each tensor, from the index."""
    with closing(model.open(INDEX_NAME)) as index:
        if index.size > MAX_INDEX_BYTES:
            raise _index_mismatch(f"an index of at most {MAX_INDEX_BYTES} bytes, not {index.size}")
        raw = read_at_most(index, MAX_INDEX_BYTES)
    try:
        document = json_value(raw, what=INDEX_NAME)
    except EvidenceError as exc:
        raise _index_mismatch(exc.message) from exc
    weights = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weights, dict):
        raise _index_mismatch("an object with weight_map, which is an object")
    homes = {name: path for name, path in weights.items() if isinstance(path, str)}
    if len(homes) != len(weights) or len(set(homes.values())) > MAX_SHARDS:
        raise _index_mismatch(f"names of at most {MAX_SHARDS} files")
    return homes


def _require_agreement(homes: Mapping[str, str], files: Mapping[str, TensorFile]) -> None:
    held: dict[str, str] = {}
    for path, file in files.items():
        for name in file.header.tensors:
            if name in held:
                raise _index_mismatch(f"each tensor in one shard; {name[:200]!r} is in {held[name]!r} and {path!r}")
            held[name] = path
    for name in sorted(homes.keys() | held.keys()):
        if homes.get(name) != held.get(name):
            raise _index_mismatch(f"{name[:200]!r} in {homes.get(name)!r}; it is in {held.get(name)!r}")


def _index_mismatch(expected: str) -> SealedFileError:
    return SealedFileError(
        f"{INDEX_NAME} does not match the model: expected {expected}",
        code="safetensors-index-mismatch",
        field=INDEX_NAME,
        expected=expected[:400],
    )
