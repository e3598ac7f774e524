"""Models that the agent unseals: verified, opened with a held key, and closed when its lease is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from attest.agent.config import ServedModel
from attest.agent.keys import AgentKeys
from attest.errors import AgentRefusedError, ConfigurationError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed.directory import SealedDirectory, VerifiedDirectory, verify_directory
from attest.sealed.key_sources import require_model_key
from attest.sealed.locations import connections_of, store_of
from attest.sealed.manifest import SealedManifest
from attest.sealed.segment_reader import SealedReader
from attest.session.key import SessionKey

MAX_IDLE_READERS: Final = 4
"""Readers kept open for the next range of a file, a few MiB each: opening one verifies the last segment again."""


class OpenModel:
    """A model opened with a key, usable while the lease of the key lives; it closes the directory.

    ``connections`` is the number of parallel requests to a remote store, None for a local one.
    """

    def __init__(self, directory: SealedDirectory, *, key: SessionKey, connections: int | None) -> None:
        self._directory = directory
        self.key = key
        self.connections = connections
        self._lock = threading.Lock()
        self._idle: list[tuple[str, SealedReader]] = []
        self._closed = False

    @property
    def manifest(self) -> SealedManifest:
        """Its owner's manifest, verified."""
        return self._directory.manifest

    @contextmanager
    def reading(self, path: str) -> Iterator[SealedReader]:
        """Yield a reader of one file.

        Raises:
            AgentRefusedError: the model has no such file.
            LeaseLostError: the key was lost.
            SealedFileError: as ``SealedDirectory.open``.
        """
        reader = self._taken(path)
        failed = True
        try:
            yield reader
            failed = False
        finally:
            self._give_back(path, reader, keep=not failed)

    def _taken(self, path: str) -> SealedReader:
        if path not in self._directory.entries:
            raise no_such_file(path)
        with self._lock:
            for index, (name, reader) in enumerate(self._idle):
                if name == path:
                    del self._idle[index]
                    return reader
        try:
            return self._directory.open(path)
        except ValueError:  # closed in the meantime
            self.key.require()
            raise

    def _give_back(self, path: str, reader: SealedReader, *, keep: bool) -> None:
        out = [reader]
        with self._lock:
            if keep and not self._closed:
                self._idle.append((path, reader))
                out = [one for _, one in self._idle[:-MAX_IDLE_READERS]]
                del self._idle[:-MAX_IDLE_READERS]
        for one in out:
            one.close()

    def close(self) -> None:
        """Drop the key, and overwrite the readers' buffers once they are idle."""
        self._directory.close()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, reader in idle:
            reader.close()


def verified_place(served: ServedModel) -> VerifiedDirectory:
    """Verify a model in its place; errors as ``verify_directory`` and ``store_of``."""
    return verify_directory(
        store_of(served.place), trusted=served.trusted, model=served.model_id, digests=served.verify_digests
    )


@dataclass(slots=True, kw_only=True, eq=False)
class Model:
    """A configured model, open or not.

    Attributes:
        config: its configuration.
        keyring: source of its key.
        service: verifier key of that source; a model whose owner names another service is refused.
        verify: verifies a model in its place.
    """

    config: ServedModel
    keyring: AgentKeys
    service: VerifierKey | None
    verify: Callable[[ServedModel], VerifiedDirectory] = verified_place
    _open: OpenModel | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def opened(self) -> OpenModel:
        """Return the model with a currently usable key.

        Raises:
            LeaseLostError, AttestError: as ``AgentKeys.get``.
            AttestError: as ``verify_directory`` and ``VerifiedDirectory.unlock``.
            ConfigurationError: ``sealed-service-differs``.
        """
        found = self._valid()
        if found is not None:
            return found
        with self._turn:
            return self._valid() or self._opened()

    def _valid(self) -> OpenModel | None:
        with self._lock:
            return self._open if self._open is not None and self._open.key.valid else None

    def _opened(self) -> OpenModel:
        verified = self.verify(self.config)
        _require_service(verified.manifest, self.service)
        connections = connections_of(verified.store)
        key, material = self.keyring.copied(verified.manifest.key)
        try:
            require_model_key(str(key.reference), purpose=key.purpose)
            directory = verified.unlock(bytes(material), threads=connections or 1)
        finally:
            material[:] = bytes(len(material))
        found = OpenModel(directory, key=key, connections=connections)
        with self._lock:
            before, self._open = self._open, found
        if before is not None:
            before.close()
        if not key.valid:
            self.lost(key.reference)
            key.require()
        return found

    @property
    def is_open(self) -> bool:
        """True if files can be served now, without a request to the service."""
        return self._valid() is not None

    def lost(self, reference: KeyReference) -> None:
        """Close it, if this key opens it."""
        with self._lock:
            found = self._open
            if found is None or found.key.reference != reference:
                return
            self._open = None
        found.close()

    def close(self) -> None:
        """Close it."""
        with self._lock:
            found, self._open = self._open, None
        if found is not None:
            found.close()


def no_such_file(path: str) -> AgentRefusedError:
    """Return the error for a file that the model does not have."""
    return AgentRefusedError(
        f"the model has no file {path[:200]!r}",
        code="agent-unknown",
        status=HTTPStatus.NOT_FOUND,
        hint="GET /v1/models/MODEL lists its files",
    )


def _require_service(manifest: SealedManifest, service: VerifierKey | None) -> None:
    if service is None or manifest.service is None or manifest.service == service:
        return
    raise ConfigurationError(
        "the model's key is kept by another service than the agent uses",
        code="sealed-service-differs",
        expected=manifest.service.text,
        got=service.text,
        hint="use the service that the model's owner signed as the keeper of its key",
    )
