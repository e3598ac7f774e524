"""Values of a service's document, each refused by its path."""

from __future__ import annotations

import json

from attest.encoding import JsonValue, base64_bytes
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import EvidenceError
from attest.evidence.json_form import JsonForm

FORM = JsonForm(
    code="provider-document-malformed",
    clause="docs/providers.md",
    check="provider.form",
    of=" of the service's document",
)
DIGEST_BYTES = 32
MAX_CERTIFICATES = 8
"""Certificates of a TLS server; recorded chains have one or two."""

Members = dict[str, JsonValue]


def members_of(value: JsonValue, path: str) -> Members:
    """Return an object; members of no meaning here are ignored, and nothing is concluded from them."""
    return FORM.object_of(value, path, members=None)


def given(members: Members, name: str) -> bool:
    """Return True if a member is there and not null."""
    return members.get(name) is not None


def text_at(members: Members, name: str, path: str) -> str:
    """Return the text of a member that has to be there."""
    return FORM.text_of(members.get(name), _at(path, name))


def hex_at(members: Members, name: str, path: str, *, sizes: tuple[int, ...] | None = (DIGEST_BYTES,)) -> bytes:
    """Return the bytes of a member in hex that has to be there; ``sizes`` None permits any."""
    return FORM.hex_of(members.get(name), _at(path, name), sizes=sizes)


def optional_hex_at(
    members: Members, name: str, path: str, *, sizes: tuple[int, ...] | None = (DIGEST_BYTES,)
) -> bytes | None:
    """Return the bytes of a member in hex, or None where it is not there."""
    return hex_at(members, name, path, sizes=sizes) if given(members, name) else None


def base64_at(members: Members, name: str, path: str) -> bytes:
    """Return the bytes of a member in base64 that has to be there."""
    where = _at(path, name)
    text = FORM.text_of(members.get(name), where, expected="base64")
    try:
        return base64_bytes(text, what=where)
    except EvidenceError as exc:
        raise FORM.malformed(where, "base64 with padding", f"{len(text)} characters of other text") from exc


def certificates_at(members: Members, name: str, path: str) -> tuple[Certificate, ...]:
    """Return the certificates of a member in PEM, leaf first."""
    where = _at(path, name)
    pem = FORM.text_of(members.get(name), where, expected="certificates in PEM").encode()
    try:
        blocks = pem_blocks(pem)
        whole = len(blocks) == pem.count(b"-----BEGIN ") and all(label == "CERTIFICATE" for label, _ in blocks)
        if not whole or not 0 < len(blocks) <= MAX_CERTIFICATES:
            raise FORM.malformed(where, f"1 to {MAX_CERTIFICATES} certificates in PEM and no other block", "other text")
        return tuple(parse_certificate(der) for _, der in blocks)
    except EvidenceError as exc:
        if exc.code == FORM.code:
            raise
        raise FORM.malformed(where, "certificates in PEM", exc.message) from exc


def certificate_at(members: Members, name: str, path: str) -> Certificate:
    """Return the certificate of a member in base64 of DER."""
    where = _at(path, name)
    try:
        return parse_certificate(base64_at(members, name, path))
    except EvidenceError as exc:
        if exc.code == FORM.code:
            raise
        raise FORM.malformed(where, "a certificate in base64", exc.message) from exc


def compact_json(value: JsonValue, *, by_name: bool = False) -> bytes:
    """Write JSON without white space, members in their order or in that of their names."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=by_name).encode()


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
