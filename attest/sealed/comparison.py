"""Comparison of files with the signed list: their sizes and digests."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from typing import Final

from attest.sealed.oms import ModelResource
from attest.sealed.signed_manifest import digest_mismatch
from attest.sealed.sources import Source, require_size
from attest.sealed.stores import FileStore
from attest.sealed.worker_threads import spread, thread_count

Progress = Callable[[str, int], object]
"""Called with the name of a file and its number of newly processed bytes; from several threads."""


class FileProgress:
    """Progress of one file: turns its total of processed bytes into the number of new ones."""

    def __init__(self, name: str, progress: Progress | None) -> None:
        self._name = name
        self._progress = progress
        self._before = 0

    def __call__(self, done: int) -> None:
        """Report the total of processed bytes."""
        if self._progress is not None:
            self._progress(self._name, done - self._before)
        self._before = done


_PIECE_BYTES: Final = 1 << 20


def require_digests(
    store: FileStore,
    resources: tuple[ModelResource, ...],
    *,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Require the signed digests of these files; a file that differs from its known size is not read.

    Raises:
        SealedTamperError: ``sealed-digest-mismatch`` or ``sealed-size-mismatch``.
        SealedSourceError: a file is missing, unreadable, or changes.
    """

    def compare(at: int) -> None:
        resource = resources[at]
        with closing(store.open(resource.name)) as source:
            require_size(resource.name, source.size, (sizes or {}).get(resource.name, source.size))
            got = file_digest(source, progress=FileProgress(resource.name, progress))
        if not hmac.compare_digest(got, resource.digest):
            raise digest_mismatch(resource.name, expected=resource.digest, got=got)

    spread(len(resources), compare, threads=thread_count(threads))


def file_digest(source: Source, *, progress: Callable[[int], object] = lambda _: None) -> bytes:
    """Return the SHA-256 of a source, 32 bytes, in constant memory; ``progress`` gets the total of read bytes.

    Raises:
        SealedSourceError: unreadable, or changed.
    """
    digest = sha256()
    buffer = memoryview(bytearray(min(_PIECE_BYTES, max(1, source.size))))
    for offset in range(0, source.size, _PIECE_BYTES):
        piece = buffer[: min(_PIECE_BYTES, source.size - offset)]
        source.read_into(offset, piece)
        digest.update(piece)
        progress(offset + len(piece))
    return digest.digest()
