"""Tensors of a sealed file, decrypted directly into the caller's arrays; no plaintext touches a disk.

::

    with open_tensors(reader) as tensors:                       # like safetensors.safe_open
        tensors.keys(); tensors.get_tensor("wte"); tensors.get_slice("wte")[:1000]
    arrays = load_tensors(reader)                                       # like safetensors.numpy.load_file
    arrays = load_model(directory, framework="torch")           # one file, or shards with their index
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.sealed.arrays import ArrayMaker, Framework, array_maker, require_bools
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import Readable
from attest.sealed.tensor_header import LENGTH_BYTES, TensorHeader, TensorInfo, header_length

Progress = Callable[[int], object]
"""Called with the number of tensor bytes read so far, in the calling thread."""


class TensorSlice:
    """A lazily read tensor: indexing reads only the selected rows."""

    def __init__(self, tensors: TensorFile, info: TensorInfo) -> None:
        self._tensors = tensors
        self._info = info

    def get_shape(self) -> list[int]:
        """Return the lengths of the axes."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Return the type, as the format names it."""
        return self._info.dtype

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401  any index and value of the framework's arrays
        """Index it as an array; an integer or a slice along the first axis reads only those rows."""
        return self._tensors.rows(self._info, index)


class TensorFile(ClosedOnExit):
    """The tensors of one file. The constructor validates the header; tensors are read on demand.

    Args:
        plaintext: of the file; closed with this object, and when the header is refused.

    Raises:
        SealedFileError: ``safetensors-malformed`` or ``safetensors-dtype-unknown``.
        ConfigurationError: ``tensor-framework-unavailable``.
        AttestError: as reading raises.
    """

    def __init__(self, plaintext: Readable, *, framework: Framework = "numpy") -> None:
        self._plaintext = plaintext
        try:
            self._maker: ArrayMaker = array_maker(framework)
            raw = _read_raw_header(plaintext)
            self.header = TensorHeader.parse(raw, data_size=plaintext.size - LENGTH_BYTES - len(raw))
        except BaseException:
            plaintext.close()
            raise

    def close(self) -> None:
        """Close the file; arrays stay valid."""
        self._plaintext.close()

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self._plaintext.name

    def keys(self) -> list[str]:
        """Return the names of its tensors, sorted."""
        return sorted(self.header.tensors)

    def metadata(self) -> dict[str, str] | None:
        """Return the writer's free text, or None."""
        return dict(self.header.metadata) or None

    def info(self, name: str) -> TensorInfo:
        """Return the header's entry for a tensor.

        Raises:
            ConfigurationError: ``tensor-unknown``.
        """
        info = self.header.tensors.get(name)
        if info is None:
            raise unknown_tensor(name, self.name, self.header.tensors)
        return info

    def get_tensor(self, name: str) -> Any:  # noqa: ANN401  an array of the framework
        """Read a tensor.

        Raises:
            ConfigurationError: ``tensor-unknown``.
            AttestError: as reading raises.
        """
        return self._whole(self.info(name))

    def get_slice(self, name: str) -> TensorSlice:
        """Return a lazily read tensor.

        Raises:
            ConfigurationError: ``tensor-unknown``, or ``tensor-packed``: numbers share bytes.
        """
        info = self.info(name)
        if info.packed:
            raise ConfigurationError(
                f"{name[:200]} packs several numbers into a byte and cannot be sliced",
                code="tensor-packed",
                got=info.dtype,
                hint="get_tensor gives its bytes",
            )
        return TensorSlice(self, info)

    def load(self, names: Iterable[str] | None = None, *, progress: Progress | None = None) -> dict[str, Any]:
        """Read several tensors, or all, in the order of the file.

        Raises:
            ConfigurationError: ``tensor-unknown``.
            AttestError: as reading raises.
        """
        wanted = self.header.tensors.keys() if names is None else {self.info(name).name for name in names}
        infos = [info for info in self.header.tensors.values() if info.name in wanted]
        made = {info.name: self._maker.allocate(info, info.shape) for info in infos}
        parts = [(self.header.data_offset + info.begin, made[info.name].memory) for info in infos]
        _read_parts(self._plaintext, parts, progress=progress)
        for info in infos:
            require_bools(info, made[info.name].memory)
        return {name: made[name].array for name in sorted(made)}

    def rows(self, info: TensorInfo, index: Any) -> Any:  # noqa: ANN401  see TensorSlice
        """Read the part of a tensor that an index selects; see ``TensorSlice``."""
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) and index else (index, ())
        if not info.shape or not isinstance(first, (int, slice)) or isinstance(first, bool):
            return self._whole(info)[index]
        begin, end, inner = _covering(first, info.shape[0])
        shape = (end - begin, *info.shape[1:])
        made = self._maker.allocate(info, shape)
        row_bytes = info.nbytes // info.shape[0] if info.shape[0] else 0
        self._fill(info, begin * row_bytes, made.memory)
        return made.array[(inner, *rest)]

    def _whole(self, info: TensorInfo) -> Any:  # noqa: ANN401  an array of the framework
        made = self._maker.allocate(info, info.shape)
        self._fill(info, 0, made.memory)
        return made.array

    def _fill(self, info: TensorInfo, start: int, memory: memoryview) -> None:
        self._plaintext.read_into(self.header.data_offset + info.begin + start, memory)
        require_bools(info, memory)


def open_tensors(plaintext: Readable, *, framework: Framework = "numpy") -> TensorFile:
    """Open a safetensors file for single tensors; see ``TensorFile``."""
    return TensorFile(plaintext, framework=framework)


def load_tensors(
    plaintext: Readable,
    *,
    names: Iterable[str] | None = None,
    framework: Framework = "numpy",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read all or some tensors of a safetensors file, and close it; see ``TensorFile``."""
    with open_tensors(plaintext, framework=framework) as tensors:
        return tensors.load(names, progress=progress)


def _read_raw_header(plaintext: Readable) -> bytes:
    """Return the raw header of a safetensors file, trailing spaces included."""
    first = bytearray(min(LENGTH_BYTES, plaintext.size))
    plaintext.read_into(0, memoryview(first))
    raw = bytearray(header_length(bytes(first), file_size=plaintext.size))
    plaintext.read_into(LENGTH_BYTES, memoryview(raw))
    return bytes(raw)


def _read_parts(plaintext: Readable, parts: Sequence[tuple[int, memoryview]], *, progress: Progress | None) -> None:
    if isinstance(plaintext, SealedReader):
        plaintext.read_parts(parts, progress=progress)
        return
    done = 0
    for offset, memory in parts:
        plaintext.read_into(offset, memory)
        done += len(memory)
        if progress is not None:
            progress(done)


def unknown_tensor(name: str, where: str, known: Iterable[str]) -> ConfigurationError:
    """Return the error for an unknown tensor."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return ConfigurationError(
        f"{where} has no tensor {name[:200]!r}",
        code="tensor-unknown",
        got=name[:200],
        hint=f"did you mean {near[0]!r}?" if near else "keys() lists its tensors",
    )


def _covering(index: int | slice, length: int) -> tuple[int, int, int | slice]:
    """Return the rows that an index needs, and the index within them."""
    if isinstance(index, int):
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError(f"index {index} is out of bounds for an axis of {length}")
        return at, at + 1, 0
    chosen = range(*index.indices(length))
    if not chosen:
        return 0, 0, slice(None)
    begin, end = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1
    return begin, end, slice(None, None, chosen.step)
