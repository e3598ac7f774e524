"""Documents of reference values: their origin, their expiry, and the values that were withdrawn.

A policy names the documents that it accepts under its key ``references``, each by its digest (``sha256``) or by its
signers (``signers``, ``at_least``, ``minimum_version``), and uses their values by name, like its own.
``accepted_documents`` has these rules; ``signed_documents`` verifies signatures.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import InvalidValueError
from attest.policy.decoder import (
    Demand,
    RelaxedDemand,
    Section,
    choice,
    demand,
    hex_of,
    integer,
    key,
    list_of,
    moment,
    record_of,
    refuse,
    table_of,
    text,
)
from attest.policy.document import canonical_json, placed, read_document

REFERENCES_SCHEMA = "attest.references/1"
MAX_REFERENCE_BYTES = 1024 * 1024
"""The same as of policies; some eight thousand values."""
MAX_VERSION = (1 << 53) - 1
DIGEST_BYTES = 32

KIND_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "snp-measurement": 48,
        "snp-id-key-digest": 48,
        "snp-author-key-digest": 48,
        "snp-host-data": 32,
        "tdx-mr-td": 48,
        "tdx-mr-seam": 48,
        "tdx-rtmr0": 48,
        "tdx-rtmr1": 48,
        "tdx-rtmr2": 48,
        "tdx-rtmr3": 48,
        "sgx-mr-enclave": 32,
        "sgx-mr-signer": 32,
        "gpu-fwid": 48,
        "nvidia-rim": 32,
        **{f"azure-pcr{register}": 32 for register in range(24)},
    }
)
"""The kinds of values, each with its length in bytes. ``nvidia-rim`` is the SHA-256 of a RIM's XML, ``azure-pcr7`` the
register of the SHA-256 bank of an Azure VM's TPM."""


class DocumentState(enum.StrEnum):
    """The validity of a document at a moment."""

    CURRENT = "current"
    EXPIRED = "expired"
    NOT_YET_ISSUED = "not yet issued"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceEntry:
    """Values under one name, in the document's order, without repetition.

    Attributes:
        kind: one of ``KIND_BYTES``.
        origin: their origin, where that differs from the document's.
        expires: last moment at which they count, included, where that is earlier than the document's.
    """

    kind: str
    values: tuple[bytes, ...]
    origin: str | None = None
    expires: datetime | None = None


def _any_value(value: JsonValue, path: str) -> bytes:
    sizes = sorted(set(KIND_BYTES.values()))
    for size in sizes:
        if isinstance(value, str) and len(value) == 2 * size:
            return hex_of(size)(value, path)
    raise refuse(path, f"{' or '.join(map(str, sizes))} bytes of hex in quotes", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedValue:
    """A value that no longer counts, with the reason."""

    value: bytes = field(metadata=key(_any_value))
    reason: str = field(metadata=key(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDocument:
    """A document of reference values.

    Attributes:
        version: the author's number, which only grows.
        expires: last moment at which it counts, included; or the reason why it does not expire.
        revoked: values that no longer count, in any document and any policy beside this one.
        digest: SHA-256 of its canonical JSON (RFC 8785), 32 bytes.
        signers: of keys whose signatures over it verify, SHA-256 of SubjectPublicKeyInfo; none until ``signed_by``.
    """

    name: str = field(metadata=key(text))
    version: int = field(metadata=key(integer(1, MAX_VERSION)))
    origin: str = field(metadata=key(text))
    issued: datetime = field(metadata=key(moment))
    expires: Demand[datetime] = field(metadata=key(demand(moment)))
    entries: Mapping[str, ReferenceEntry]
    revoked: tuple[RevokedValue, ...] = field(default=(), metadata=key(list_of(record_of(RevokedValue))))
    digest: bytes
    signers: frozenset[bytes] = frozenset()

    def signed_by(self, signers: Iterable[bytes]) -> ReferenceDocument:
        """Return the document with the keys whose signatures over its digest the caller has verified."""
        return replace(self, signers=frozenset(signers))

    def state(self, at: datetime) -> DocumentState:
        """Return the state of the document at a moment, bounds included."""
        end = self.expires.value
        if at < self.issued:
            return DocumentState.NOT_YET_ISSUED
        return DocumentState.EXPIRED if isinstance(end, datetime) and at > end else DocumentState.CURRENT

    def end_of(self, entry: ReferenceEntry) -> datetime | None:
        """Return the earlier of both ends."""
        ends = [end for end in (self.expires.value, entry.expires) if isinstance(end, datetime)]
        return min(ends, default=None)


NO_REFERENCE_DOCUMENTS: Mapping[str, ReferenceDocument] = MappingProxyType({})


def read_reference_document(data: bytes, *, name: str = "reference values") -> ReferenceDocument:
    """Read a document from YAML or JSON; both of one content have one digest. ``name`` is its name in errors.

    Raises:
        ConfigurationError: ``policy-unreadable`` or ``policy-invalid``, with line, column and the path of the value.
    """
    document = read_document(data, name=name)
    try:
        return decode_reference_document(document)
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc


def decode_reference_document(document: JsonValue) -> ReferenceDocument:
    """Read a document that is parsed already.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    section = Section(document, "")
    section.required("schema", choice([REFERENCES_SCHEMA]))
    entries = section.required("values", table_of(_entry))
    found = replace(
        section.record(ReferenceDocument, entries=entries, digest=b""),
        digest=sha256(canonical_json(document, what="references")).digest(),
    )
    section.finish()
    end = found.expires.value
    if isinstance(end, datetime) and end < found.issued:
        raise refuse("expires", f"a moment after issued ({rfc3339_text(found.issued)})", rfc3339_text(end))
    return found


def _entry(value: JsonValue, path: str) -> ReferenceEntry:
    section = Section(value, path)
    kind = section.required("kind", choice(KIND_BYTES))
    values = section.required("values", list_of(hex_of(KIND_BYTES[kind])))
    if len(set(values)) != len(values):
        raise refuse(section.path("values"), "each value once", "the same value twice")
    found = ReferenceEntry(
        kind=kind,
        values=values,
        origin=section.stated("origin", text),
        expires=section.stated("expires", moment),
    )
    section.finish()
    return found


def reference_json(document: ReferenceDocument) -> dict[str, JsonValue]:
    """Write a document; what comes out reads back to an equal one, signers aside."""
    end = document.expires.value
    revoked: list[JsonValue] = [{"value": one.value.hex(), "reason": one.reason} for one in document.revoked]
    return {
        "schema": REFERENCES_SCHEMA,
        "name": document.name,
        "version": document.version,
        "origin": document.origin,
        "issued": rfc3339_text(document.issued),
        "expires": {"unchecked": end.reason} if isinstance(end, RelaxedDemand) else rfc3339_text(end),
        "values": {name: _entry_json(entry) for name, entry in document.entries.items()},
        **({"revoked": revoked} if revoked else {}),
    }


def _entry_json(entry: ReferenceEntry) -> dict[str, JsonValue]:
    values: list[JsonValue] = [value.hex() for value in entry.values]
    return {
        "kind": entry.kind,
        "values": values,
        **({} if entry.origin is None else {"origin": entry.origin}),
        **({} if entry.expires is None else {"expires": rfc3339_text(entry.expires)}),
    }


def make_reference_document(
    *,
    name: str,
    version: int,
    origin: str,
    issued: datetime,
    expires: datetime | RelaxedDemand,
    entries: Mapping[str, ReferenceEntry],
    revoked: tuple[RevokedValue, ...] = (),
) -> ReferenceDocument:
    """Make a document and its digest; held to the same rules as one that is read.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    draft = ReferenceDocument(
        name=name,
        version=version,
        origin=origin,
        issued=issued,
        expires=Demand(expires),
        entries=entries,
        revoked=revoked,
        digest=bytes(DIGEST_BYTES),
    )
    return decode_reference_document(reference_json(draft))
