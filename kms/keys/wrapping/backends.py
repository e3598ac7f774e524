"""Creation and opening of key-encryption keys from their definitions; a proof identifies an existing key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from attest.errors import AttestError, ConfigurationError
from kms.domain.errors import UnavailableError
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import KekRecord, KekState
from kms.keys.wrapping.backend import SingleKek, WrappingBackend, make_proof, require_binding
from kms.keys.wrapping.definitions import Definition, FileDefinition, Pkcs11Definition, TransitDefinition
from kms.keys.wrapping.file import create_kek_file, drafting_kek, read_kek_file

KEK_ID_BYTES = 32


def create_backend(definition: Definition, *, random: RandomBytes) -> WrappingBackend:
    """Make the key of a definition, and open it. An existing file or key is never overwritten.

    Raises:
        ConfigurationError: it cannot be made, or it exists and does not fit.
        UnavailableError: the back-end does not answer.
    """
    if isinstance(definition, FileDefinition):
        create_kek_file(definition.file, random=random)
    else:
        _elsewhere(definition, random=random).create()
    return open_backend(definition, random=random)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshBackend:
    """The back-end of a service that is being created.

    ``known`` is True if the database has it already, and only the naming of its file was interrupted.
    """

    backend: WrappingBackend
    known: bool


@contextmanager
def fresh_backend(
    definition: Definition, *, known: Callable[[], Iterable[KekRecord]], random: RandomBytes
) -> Iterator[FreshBackend]:
    """Make the key of a new service. A file gets its name at the end of the block.

    The database registers the key before the file has its name; an interruption in between leaves an unfinished file.
    The next run looks its key up among those that ``known`` reads from the database, and makes another one only if it
    is unknown.

    Raises:
        ConfigurationError: as ``create_backend``.
        UnavailableError: the back-end, or the database, does not answer.
    """
    if not isinstance(definition, FileDefinition):
        backend = create_backend(definition, random=random)
        try:
            yield FreshBackend(backend=backend, known=False)
        finally:
            backend.close()
        return
    with drafting_kek(definition.file) as draft:
        left = draft.left(random=random)
        is_known = left is not None and identify(left, known()) is not None
        made = left if left is not None and is_known else draft.make(random=random)
        try:
            yield FreshBackend(backend=made, known=is_known)
        except AttestError as exc:
            # A server that went away may have committed; the next run finds out with the unfinished file.
            if not is_known and not isinstance(exc, UnavailableError):
                draft.discard()
            raise
        draft.place()


def open_backend(definition: Definition, *, random: RandomBytes) -> WrappingBackend:
    """Open the back-end of a definition.

    Raises:
        ConfigurationError: the key is missing, or does not fit.
        UnavailableError: it does not answer.
    """
    if isinstance(definition, FileDefinition):
        return read_kek_file(definition.file, random=random)
    elsewhere = _elsewhere(definition, random=random)
    elsewhere.connect()
    return elsewhere


class _Elsewhere(WrappingBackend, Protocol):
    """A back-end whose connection can break."""

    def connect(self) -> None:
        """Check that the key exists and fits."""

    def create(self) -> None:
        """Make the key unless it is there."""


def _elsewhere(definition: Pkcs11Definition | TransitDefinition, *, random: RandomBytes) -> _Elsewhere:
    try:
        if isinstance(definition, Pkcs11Definition):
            from kms.keys.wrapping.pkcs11 import Pkcs11Backend  # noqa: PLC0415  an extra

            return Pkcs11Backend(definition, random=random)
        from kms.keys.wrapping.transit import TransitBackend  # noqa: PLC0415  an extra

        return TransitBackend(definition)
    except ImportError as exc:
        raise ConfigurationError(
            f"the back-end {str(definition.backend)!r} needs a package that is not installed: {exc.name}",
            code="kek-extra-missing",
            field="kek_backend",
            got=str(definition.backend),
            hint=f"pip install 'attest-kms[{definition.backend}]'",
        ) from exc


def new_record(backend: WrappingBackend, *, state: KekState, random: RandomBytes, at: datetime) -> KekRecord:
    """Make the database's record of a key.

    Raises:
        ConfigurationError: ``kek-binds-nothing``.
        UnavailableError: its back-end does not answer.
    """
    kek_id = backend.derived_id or random(KEK_ID_BYTES)
    record = KekRecord(
        id=kek_id,
        backend=backend.kind,
        description=backend.description,
        state=state,
        proof=make_proof(backend, kek_id),
        created_at=at,
    )
    require_binding(backend, record)
    return record


def identify(backend: WrappingBackend, records: Iterable[KekRecord]) -> SingleKek | None:
    """Return the key of a back-end, if it proves to be one of these.

    Raises:
        ConfigurationError: ``kek-binds-nothing``.
        UnavailableError: the back-end does not answer.
    """
    for record in records:
        if record.backend is not backend.kind:
            continue
        kek = SingleKek(backend, kek_id=record.id, proof=record.proof)
        if kek.proves():
            require_binding(backend, record)
            return kek
    return None
