"""Signed documents of Intel: TCB info and QE identity, as the exact bytes that were signed.

Intel signs the text of a JSON value, not its meaning: an added blank breaks the signature. A document is therefore
the signed slice of the answer, located by parsing the preceding JSON, and never serialised again.
Parsing and signature checks are pure functions of bytes with bounded caches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.encoding import hex_bytes, json_value
from attest.endorsements.malformed import malformed
from attest.endorsements.signatures import signature_holds
from attest.errors import ChainError

MAX_DOCUMENT_BYTES = 256 * 1024
"""The largest known has 7 KiB; one with the most levels allowed has 150."""
_SIGNATURE_BYTES = 64
_COORDINATE_BYTES = 32
_REMEMBERED = 64
"""Few, because the Attester chooses the input, and a parsed document takes ten times its size."""
_ECDSA_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_BLANK = " \t\n\r"
_DECODER = json.JSONDecoder()
malformed_collateral = partial(malformed, code="collateral-malformed", clause="Intel PCS, API version 4")

IntelDocumentKind = Literal["tcb-info", "qe-identity"]
_KINDS: dict[str, IntelDocumentKind] = {"tcbInfo": "tcb-info", "enclaveIdentity": "qe-identity"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntelDocument:
    """A TCB info or QE identity as presented, untrusted until its signature is verified.

    Attributes:
        kind: by its member's name.
        body: the JSON value, exactly as served and signed.
        signature: r and s, 32 bytes each, big-endian.
    """

    kind: IntelDocumentKind
    body: bytes
    signature: bytes

    def is_signed_by(self, spki: bytes) -> bool:
        """Return True if this key signed exactly these bytes; an unreadable key signed nothing."""
        return _document_signature_holds(self.body, self.signature, spki)


@lru_cache(maxsize=_REMEMBERED)
def _document_signature_holds(body: bytes, signature: bytes, spki: bytes) -> bool:
    r = int.from_bytes(signature[:_COORDINATE_BYTES], "big")
    s = int.from_bytes(signature[_COORDINATE_BYTES:], "big")
    try:
        return signature_holds(body, encode_dss_signature(r, s), _ECDSA_SHA256, spki)
    except ChainError:
        return False


def intel_document(kind: IntelDocumentKind, body: bytes, signature: str) -> IntelDocument:
    """Return a document from a body and its signature in hex.

    Raises:
        EvidenceError: ``hex-invalid`` (the signature is not 64 bytes of hex) or ``collateral-malformed`` (too large).
    """
    if len(body) > MAX_DOCUMENT_BYTES:
        raise malformed_collateral(kind, f"at most {MAX_DOCUMENT_BYTES} bytes", str(len(body)))
    signed = hex_bytes(signature, what=f"{kind} signature", length=_SIGNATURE_BYTES)
    return IntelDocument(kind=kind, body=body, signature=signed)


def parse_pcs_answer(data: bytes) -> IntelDocument:
    """Extract the signed document from an answer of Intel's service (specs/intel-tdx-sgx.md, sections 8 and 17).

    An answer is ``{"tcbInfo": {…}, "signature": hex}`` or ``{"enclaveIdentity": {…}, "signature": hex}``, UTF-8.

    Raises:
        EvidenceError: ``json-invalid``, ``hex-invalid`` or ``collateral-malformed``.
    """
    what = "PCS answer"
    if len(data) > MAX_DOCUMENT_BYTES:
        raise malformed_collateral(what, f"at most {MAX_DOCUMENT_BYTES} bytes", str(len(data)))
    answer = json_value(data, what=what)
    if not isinstance(answer, dict):
        raise malformed_collateral(what, "an object", "another JSON value")
    held = [name for name in _KINDS if name in answer]
    signature = answer.get("signature")
    if len(held) != 1 or not isinstance(signature, str):
        raise malformed_collateral(
            what, "tcbInfo or enclaveIdentity, and signature as text", f"{len(answer)} other members"
        )
    body = _text_of_member(data.decode("utf-8"), held[0])
    return intel_document(_KINDS[held[0]], body.encode("utf-8"), signature)


def _text_of_member(text: str, wanted: str) -> str:
    """Return a member's value from the outermost object of valid JSON that has this member."""
    at = _after_blank(text, 0)
    name, start, end = "", at, at
    while name != wanted:
        name, at = _DECODER.raw_decode(text, _after_blank(text, at + 1))  # after the brace or the comma
        start = _after_blank(text, _after_blank(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        at = _after_blank(text, end)
    return text[start:end]


def _after_blank(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at
