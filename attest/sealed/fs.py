"""``sealed://``: a sealed model as an fsspec file system.

::

    fs = fsspec.filesystem("sealed", place="https://models.example/bge-small", key=key, trusted=("owner.pem",))
    fs.ls("", detail=False); fs.open("config.json"); fs.get("tokenizer.json", "/dev/shm/tokenizer.json")

Paths are those of the model; the prefix ``sealed://`` is optional. Place, key and trusted keys are options and never
part of an address: addresses are logged and shared. The key stays out of fsspec's records of a file system (options,
cache, JSON form).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

from cryptography.hazmat.primitives.asymmetric import ec
from fsspec.spec import AbstractFileSystem

from attest.errors import AttestError
from attest.sealed.directory import SealedDirectory, open_directory
from attest.sealed.file_object import SealedFileObject, as_file
from attest.sealed.key_sources import KeyProvider, KeySource, key_source
from attest.sealed.locations import connections_of, store_of
from attest.sealed.segment_reader import SealedReader
from attest.sealed.signing_keys import read_trusted_key
from attest.sealed.stores import FileStore
from attest.sealed.worker_threads import spread

MAX_PEM_BYTES: Final = 64 << 10
PARALLEL_RANGES: Final = 8

Trusted = Collection[ec.EllipticCurvePublicKey | str | os.PathLike[str]]


class SealedFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A sealed model, read-only. It is verified, and its key requested, on first use.

    Args:
        place: a folder, an address as for ``store_of``, or a store.
        key: 32 bytes; or a function of the verified manifest; or an object with ``key(name)``.
        trusted: accepted signers as public keys or PEM files; an empty collection accepts nothing.
        model_id: required identity, 16 bytes; None accepts any of the owner's models, older ones too.
        fo: fsspec's name of ``place`` in chained URLs.
        options: fsspec's own, and those of ``store_of``: ``headers``, ``endpoint_url``, ``patience``.

    Raises:
        TypeError: no place, or an invalid kind of key; text is refused, since it would end up in files and URLs.
        ConfigurationError: as ``store_of`` and ``read_trusted_key``.
    """

    protocol: ClassVar[str] = "sealed"
    root_marker: ClassVar[str] = ""
    # fsspec caches instances indefinitely, and writes their options as JSON. Neither may contain a key.
    cachable: ClassVar[bool] = False
    _strip_tokenize_options: ClassVar[tuple[str, ...]] = ("key", "trusted", "headers", "patience")

    def __init__(
        self,
        place: FileStore | str | os.PathLike[str] | None = None,
        *,
        key: bytes | KeySource | KeyProvider | None = None,
        trusted: Trusted = (),
        model_id: bytes | None = None,
        fo: str | None = None,
        **options: Any,  # noqa: ANN401  fsspec's own
    ) -> None:
        reaching = {name: options.pop(name) for name in ("headers", "endpoint_url", "patience") if name in options}
        super().__init__(**options)
        place = fo if place is None else place
        if place is None or key is None:
            raise TypeError(
                "a sealed file system needs a place and a key: filesystem('sealed', place=…, key=…, trusted=…)"
            )
        self._own_store = isinstance(place, (str, os.PathLike))
        self._store: FileStore = store_of(place, **reaching) if isinstance(place, (str, os.PathLike)) else place
        self._key = key_source(key)
        self._trusted = tuple(_trusted_key(one) for one in trusted)
        self._model_id = model_id
        self._opened: SealedDirectory | None = None

    @property
    def model(self) -> SealedDirectory:
        """The model, verified and opened.

        Raises:
            AttestError: as ``open_directory``.
        """
        if self._opened is None:
            self._opened = open_directory(
                self._store,
                key=self._key,
                trusted=self._trusted,
                model=self._model_id,
                threads=connections_of(self._store),
            )
        return self._opened

    def close(self) -> None:
        """Drop the key, and close its own connections; the object is unusable afterwards."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
        close = getattr(self._store, "close", None)
        if self._own_store and close is not None:
            close()

    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:  # noqa: FBT001, FBT002  fsspec's signature
        """List a folder of the model, or a file.

        Raises:
            FileNotFoundError: not in the model.
            AttestError: as ``open_directory``.
        """
        folder = self._strip_protocol(path)
        if folder in self.model.entries:
            found = [self._file(folder)]
        else:
            found = self._below(folder)
            if not found and folder:
                raise FileNotFoundError(folder)
        return found if detail else [one["name"] for one in found]

    def info(self, path: str, **_: object) -> dict[str, Any]:
        """Return the description of a file or folder; errors as ``ls``."""
        path = self._strip_protocol(path)
        if path in self.model.entries:
            return self._file(path)
        if path and not self._below(path):
            raise FileNotFoundError(path)
        return {"name": path, "size": 0, "type": "directory"}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
        """Return a range of a file; negative bounds count from its end.

        Raises:
            FileNotFoundError: not in the model.
            AttestError: as opening and reading raise.
        """
        with self._reader(path) as reader:
            return _range_of(reader, start, end)

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: object,
    ) -> list[Any]:
        """Return several ranges in parallel, opening each file once.

        A bound is that of each range, or of all. ``max_gap`` is ignored: neighbours in one segment are read once
        anyway. ``on_error`` is ``raise``, or ``return`` for exceptions in place of their ranges.

        Raises:
            FileNotFoundError: not in the model, with ``raise``.
            AttestError: as opening and reading raise, with ``raise``.
            ValueError: the lists differ in length.
        """
        del max_gap
        names = [self._strip_protocol(path) for path in paths]
        ranges = list(zip(names, _each(starts, len(names)), _each(ends, len(names)), strict=True))
        results: list[Any] = [None] * len(ranges)
        with ExitStack() as opened:

            def open_file(name: str) -> SealedReader:
                return opened.enter_context(self._reader(name))

            readers = {name: _or_error(partial(open_file, name), on_error) for name in dict.fromkeys(names)}

            def read(at: int) -> None:
                name, start, end = ranges[at]
                reader = readers[name]
                if isinstance(reader, SealedReader):
                    results[at] = _or_error(lambda: _range_of(reader, start, end), on_error)
                else:
                    results[at] = reader

            spread(len(ranges), read, threads=PARALLEL_RANGES)
        return results

    def created(self, path: str) -> NoReturn:
        """Refuse: sealed models have no file times."""
        raise NotImplementedError(path)

    modified = created

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **_: object) -> SealedFileObject:
        if mode != "rb":
            raise _read_only()
        remote = connections_of(self._store) is not None
        return as_file(self._reader(path), buffer_size=block_size, remote=remote)

    def _reader(self, path: str) -> SealedReader:
        path = self._strip_protocol(path)
        if path not in self.model.entries:
            raise FileNotFoundError(path)
        return self.model.open(path)

    def _file(self, path: str) -> dict[str, Any]:
        return {"name": path, "size": self.model.entries[path].size, "type": "file"}

    def _below(self, folder: str) -> list[dict[str, Any]]:
        prefix = f"{folder}/" if folder else ""
        found: dict[str, dict[str, Any]] = {}
        for path in self.model.entries:
            if path.startswith(prefix):
                part, slash, _ = path.removeprefix(prefix).partition("/")
                name = prefix + part
                found[name] = {"name": name, "size": 0, "type": "directory"} if slash else self._file(path)
        return [found[name] for name in sorted(found)]

    def _refuse_writing(self, *_given: object, **_options: object) -> NoReturn:
        """Refuse writing and deletion."""
        raise _read_only()

    mkdir = makedirs = rmdir = cp_file = touch = rm = rm_file = _rm = mv = pipe_file = put_file = _refuse_writing

    def to_dict(self, *, include_password: bool = True) -> NoReturn:
        """Refuse serialisation."""
        del include_password
        raise _stays_here()

    to_json = to_dict

    def __reduce__(self) -> NoReturn:
        raise _stays_here()


def _trusted_key(given: ec.EllipticCurvePublicKey | str | os.PathLike[str]) -> ec.EllipticCurvePublicKey:
    if not isinstance(given, (str, os.PathLike)):
        return given
    with Path(given).open("rb") as file:
        return read_trusted_key(file.read(MAX_PEM_BYTES))


def _range_of(reader: SealedReader, start: int | None, end: int | None) -> bytes:
    """Return the range of these slice bounds."""
    begin, stop, _ = slice(start, end).indices(reader.size)
    return bytes(reader.read(begin, max(0, stop - begin)))


def _each(bound: int | Iterable[int | None] | None, count: int) -> list[int | None]:
    return [bound] * count if bound is None or isinstance(bound, int) else list(bound)


def _or_error(work: Callable[[], object], on_error: str) -> object:
    """Return the result, or the error if errors are returned."""
    if on_error != "return":
        return work()
    try:
        return work()
    except (AttestError, OSError, ValueError) as exc:
        return exc


def _read_only() -> io.UnsupportedOperation:
    return io.UnsupportedOperation("a sealed model is read-only; 'attest seal' makes one")


def _stays_here() -> TypeError:
    return TypeError("a sealed file system cannot leave its process: it contains the key of the model")
