"""Parser for endorsement bundles, signed or not, with all their entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import cast, get_args

from attest.encoding import CborValue, cbor_bytes, cbor_value, rfc3339, rfc3339_text
from attest.endorsements.bundle_records import (
    BUNDLE_FORMAT,
    FETCH_AGAIN,
    MAX_BUNDLE_BYTES,
    MAX_CHAIN_CERTIFICATES,
    MAX_ENTRIES,
    MAX_SIGNATURES,
    MAX_SOURCE_CHARACTERS,
    BundleEntry,
    BundleSignature,
    EntryKind,
    ParsedBundle,
    malformed,
)
from attest.endorsements.intel import IntelDocumentKind
from attest.endorsements.intel_answers import parse_intel_crl, parse_intel_document
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.pool import EndorsementLists
from attest.endorsements.rims import parse_rim_answer
from attest.endorsements.x509 import Certificate, parse_certificate, parse_crl, pem_blocks
from attest.errors import EndorsementError, EvidenceError

_FORMAT_HEAD = cbor_bytes("format")
_FORMAT_FAMILY = b"attest.endorsements/"
_SIGNED_HEAD = cbor_bytes("bundle")
_SIGNATURE_BYTES = 64
_KEY_ID_BYTES = 32


def is_bundle(data: bytes) -> bool:
    """Return True if the first bytes are those of a bundle, of any version, signed or not."""
    if not data or not 0xA0 <= data[0] <= 0xBB:
        return False
    family = data[1 + len(_FORMAT_HEAD) :][:32]
    return data.startswith(_SIGNED_HEAD, 1) or (data.startswith(_FORMAT_HEAD, 1) and _FORMAT_FAMILY in family)


def parse_bundle(data: bytes) -> ParsedBundle:
    """Parse a bundle, signed or not, with every certificate and list in it.

    Args:
        data: at most ``MAX_BUNDLE_BYTES`` of canonical CBOR, nothing before or after.

    Raises:
        EndorsementError: ``bundle-malformed``.
    """
    if len(data) > MAX_BUNDLE_BYTES:
        raise malformed("bundle", f"at most {MAX_BUNDLE_BYTES} bytes", f"{len(data)} bytes")
    try:
        outer = cbor_value(data, what="bundle")
        if isinstance(outer, Mapping) and "bundle" in outer:
            members = _members(outer, ("bundle", "signatures"), "signed bundle")
            inner = _bytes(members["bundle"], "bundle")
            return _parse_inner(inner, cbor_value(inner, what="bundle"), _signatures(members["signatures"]))
        return _parse_inner(data, outer, ())
    except EvidenceError as exc:  # of the parsers below: the same refusal, as an endorsement error
        raise EndorsementError(exc.message, code="bundle-malformed", field=exc.field, hint=FETCH_AGAIN) from exc


def _parse_inner(inner: bytes, value: CborValue, signatures: tuple[BundleSignature, ...]) -> ParsedBundle:
    members = _members(value, ("format", "created", "expires", "entries"), "bundle")
    if members["format"] != BUNDLE_FORMAT:
        raise malformed("format", BUNDLE_FORMAT, str(members["format"])[:40])
    created, expires = _moment(members["created"], "created"), _moment(members["expires"], "expires")
    if created >= expires:
        raise malformed("expires", f"later than {rfc3339_text(created)}", rfc3339_text(expires))
    entries = _entries(members["entries"])
    found = EndorsementLists()
    for i, entry in enumerate(entries):
        _read_content(entry, f"entries[{i}]", found)
    return ParsedBundle(
        created=created,
        expires=expires,
        entries=entries,
        signatures=signatures,
        inner=inner,
        endorsements=found.pool(),
    )


def _entries(value: CborValue) -> tuple[BundleEntry, ...]:
    records = _array(value, "entries", limit=MAX_ENTRIES)
    if not records:
        raise malformed("entries", "at least one", "none")
    entries = tuple(_entry(record, f"entries[{i}]") for i, record in enumerate(records))
    if len(set(entries)) != len(entries):
        raise malformed("entries", "each entry once", "one that occurs twice")
    return entries


def _entry(value: CborValue, path: str) -> BundleEntry:
    members = _members(value, ("kind", "source", "data"), path)
    kind, source = _text(members["kind"], f"{path}.kind"), _text(members["source"], f"{path}.source")
    if kind not in get_args(EntryKind):
        raise malformed(f"{path}.kind", " or ".join(get_args(EntryKind)), repr(kind[:40]))
    if len(source) > MAX_SOURCE_CHARACTERS or not (source.isascii() and source.isprintable()):
        raise malformed(f"{path}.source", f"at most {MAX_SOURCE_CHARACTERS} printable characters", "other text")
    data = _bytes(members["data"], f"{path}.data")
    return BundleEntry(kind=cast("EntryKind", kind), source=source, data=data)  # kind was compared above


_DOCUMENTS: dict[EntryKind, IntelDocumentKind] = {"intel-tcb-info": "tcb-info", "intel-qe-identity": "qe-identity"}


def _read_content(entry: BundleEntry, path: str, found: EndorsementLists) -> None:
    """Parse the content of an entry, exactly of its kind."""
    try:
        match entry.kind:
            case "amd-vcek":
                found.certificates.append(parse_certificate(entry.data))
            case "amd-crl":
                found.crls.append(parse_crl(entry.data))
            case "amd-chain":
                found.certificates += _chain(entry.data, path)
            case "intel-crl":
                crl, chain = parse_intel_crl(entry.data)
                found.crls.append(crl)
                found.certificates += chain
            case "nvidia-rim":
                found.rims.append(parse_rim_answer(entry.data).document)
            case "nvidia-ocsp":
                found.ocsp.append(parse_ocsp(entry.data))
            case _:  # intel-tcb-info, intel-qe-identity
                document, chain = parse_intel_document(entry.data, kind=_DOCUMENTS[entry.kind])
                found.documents.append(document)
                found.certificates += chain
    except EvidenceError as exc:
        raise malformed(f"{path}.data", f"a readable {entry.kind}", exc.message) from exc


def _chain(data: bytes, path: str) -> tuple[Certificate, ...]:
    blocks = pem_blocks(data)
    if not 0 < len(blocks) <= MAX_CHAIN_CERTIFICATES or {label for label, _ in blocks} != {"CERTIFICATE"}:
        raise malformed(f"{path}.data", "1 to 8 PEM certificates", f"{len(blocks)} PEM blocks")
    return tuple(parse_certificate(der) for _, der in blocks)


def _signatures(value: CborValue) -> tuple[BundleSignature, ...]:
    records = _array(value, "signatures", limit=MAX_SIGNATURES)
    signatures = tuple(_signature(record, f"signatures[{i}]") for i, record in enumerate(records))
    ids = [made.key_id for made in signatures]
    if not ids or ids != sorted(set(ids)):
        raise malformed("signatures", "at least one, in the order of key ids, no key twice", f"{len(ids)} others")
    return signatures


def _signature(value: CborValue, path: str) -> BundleSignature:
    members = _members(value, ("algorithm", "key_id", "signature"), path)
    if members["algorithm"] != "Ed25519":
        raise malformed(f"{path}.algorithm", "Ed25519", "another")
    return BundleSignature(
        key_id=_bytes(members["key_id"], f"{path}.key_id", length=_KEY_ID_BYTES),
        signature=_bytes(members["signature"], f"{path}.signature", length=_SIGNATURE_BYTES),
    )


def _members(value: CborValue, names: tuple[str, ...], path: str) -> Mapping[str, CborValue]:
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise malformed(path, f"a map of {', '.join(names)}", "something else")
    return value


def _array(value: CborValue, path: str, *, limit: int) -> tuple[CborValue, ...]:
    if not isinstance(value, list | tuple):
        raise malformed(path, "an array", type(value).__name__)
    if len(value) > limit:
        raise malformed(path, f"at most {limit}", str(len(value)))
    return tuple(value)


def _text(value: CborValue, path: str) -> str:
    if not isinstance(value, str):
        raise malformed(path, "text", type(value).__name__)
    return value


def _bytes(value: CborValue, path: str, *, length: int | None = None) -> bytes:
    if not isinstance(value, bytes) or length not in (None, len(value)):
        raise malformed(path, "a byte string" if length is None else f"{length} bytes", "something else")
    return value


def _moment(value: CborValue, path: str) -> datetime:
    text = _text(value, path)
    moment = rfc3339(text, what=path)
    if rfc3339_text(moment) != text:
        raise malformed(path, f"{rfc3339_text(moment)}, the one spelling of this moment", repr(text))
    return moment
