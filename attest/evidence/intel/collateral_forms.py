"""Intel's collateral as others keep it: JSON bundles, answers of the service, lists as hex, percent-encoded chains.

Each part of a bundle is read on its own, so that a broken one does not affect the others. Parts that cannot be read
are reported and count as missing.

Spec: specs/intel-tdx-sgx.md, sections 14, 17 and 18.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TypeVar

from attest.encoding import JsonValue, hex_bytes, json_value
from attest.endorsements.intel import IntelDocument, IntelDocumentKind, intel_document, parse_pcs_answer
from attest.endorsements.pool import EndorsementLists
from attest.endorsements.x509 import Certificate, Crl, parse_certificate, parse_crl, pem_blocks
from attest.errors import EvidenceError
from attest.evidence.intel.qe_identity import parse_qe_identity
from attest.evidence.intel.tcb_info import parse_tcb_info

MAX_COLLATERAL_BYTES = 4 * 1024 * 1024
"""Two documents, two lists and four chains, each within its own limit; the largest bundle seen has 35 KiB."""
MAX_CHAIN_CERTIFICATES = 16
"""Maximum of certificates in one chain; Intel's have two or three."""

_CHAINS = ("pck_crl_issuer_chain", "tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_certificate_chain")
_LISTS = ("root_ca_crl", "pck_crl")
_DOCUMENTS: Mapping[str, IntelDocumentKind] = {"tcb_info": "tcb-info", "qe_identity": "qe-identity"}
_ANSWERS = ("tcbInfo", "enclaveIdentity")
_MEMBERS = frozenset({*_CHAINS, *_LISTS, *_DOCUMENTS, *_ANSWERS})
_MEMBER = re.compile(rb'"(?:' + "|".join(sorted(_MEMBERS)).encode() + rb')"[ \t\n\r]*:')
_PEM_LIST = "-----BEGIN X509 CRL-----"
_BLANKS = b" \t\n\r\0"
_PADDING = b"\0\r\n"
_HEX_OF_SEQUENCE = re.compile(rb"30(?:8[1-3])?[0-9A-Fa-f]{8,}")
_PERCENT_CHAIN = re.compile(rb"-----BEGIN%20[!-~]+")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
_LONG_FORM = 0x80
_Part = TypeVar("_Part")


# -- recognition


def looks_like_collateral(data: bytes) -> bool:
    """Return True if this is a JSON object with a member name that only Intel's collateral has."""
    return data[:64].lstrip(_BLANKS)[:1] == b"{" and _MEMBER.search(data, 0, MAX_COLLATERAL_BYTES) is not None


def read_collateral(data: bytes) -> CollateralReading | None:
    """Read a bundle of dcap-qvl or of Intel's quote verification library, or an answer of the PCS.

    A NUL at the end is ignored. The result is None when the members' names stand deeper inside another document.

    Raises:
        EvidenceError: ``json-invalid`` or ``collateral-malformed``: nothing of it can be read.
    """
    if len(data) > MAX_COLLATERAL_BYTES:
        raise EvidenceError(
            f"collateral: {len(data)} bytes, more than {MAX_COLLATERAL_BYTES}", code="collateral-malformed"
        )
    text = data.rstrip(b"\0")
    value = json_value(text, what="collateral")
    if not isinstance(value, dict) or _MEMBERS.isdisjoint(value):
        return None
    reading = CollateralReading()
    if any(name in value for name in _ANSWERS):
        reading.take("PCS answer", partial(_answer, text), reading.found.documents)
    else:
        reading.take_bundle(value)
    return reading


class CollateralReading:
    """The collateral read so far; candidates, not trusted.

    Attributes:
        problems: parts that could not be read, each by its name.
    """

    def __init__(self) -> None:
        self.found = EndorsementLists()
        self.problems: list[str] = []

    def take(self, name: str, read: Callable[[], Iterable[_Part]], found: list[_Part]) -> None:
        """Read one part; an unreadable one becomes a problem."""
        try:
            found += read()
        except EvidenceError as exc:
            self.problems.append(f"{name}: {exc.message}")

    def take_bundle(self, value: Mapping[str, JsonValue]) -> None:
        """Read every part of a bundle."""
        read = cache(_certificates)  # for this bundle only, in which two chains are often the same text
        for name in _CHAINS:
            self.take(name, partial(_chain, value, name, read), self.found.certificates)
        for name in _LISTS:
            self.take(name, partial(_lists, value, name), self.found.crls)
        for name in _DOCUMENTS:
            self.take(name, partial(_documents, value, name), self.found.documents)


def _text(value: Mapping[str, JsonValue], name: str) -> str:
    """Return a member without the NUL that ends a string of C; an absent one is empty."""
    text = value.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise EvidenceError("expected text", code="collateral-malformed", field=name, expected="text")
    return text.rstrip("\0")


def _chain(
    value: Mapping[str, JsonValue], name: str, read: Callable[[str], tuple[Certificate, ...]]
) -> tuple[Certificate, ...]:
    return read(_text(value, name))


def _certificates(text: str) -> tuple[Certificate, ...]:
    data = text.encode("utf-8")
    blocks = pem_blocks(percent_decoded_chains(data) or data)
    labels = {label for label, _ in blocks}
    if text.strip() and (labels != {"CERTIFICATE"} or len(blocks) > MAX_CHAIN_CERTIFICATES):
        raise EvidenceError(
            f"expected 1 to {MAX_CHAIN_CERTIFICATES} PEM certificates, got {len(blocks)} PEM blocks",
            code="collateral-malformed",
        )
    return tuple([parse_certificate(der) for _, der in blocks])


def _lists(value: Mapping[str, JsonValue], name: str) -> list[Crl]:
    """Read one list: PEM in version 1.0 of Intel's structure, hex of DER in 3.0 and at dcap-qvl."""
    found = _text(value, name).strip()
    if not found:
        return []
    if not found.startswith(_PEM_LIST):
        return [parse_crl(der_without_padding(hex_bytes(found, what="CRL")))]
    blocks = pem_blocks(found.encode("utf-8"))
    if len(blocks) != 1:
        raise EvidenceError(f"expected one PEM list, got {len(blocks)}", code="collateral-malformed")
    return [parse_crl(blocks[0][1])]


def _documents(value: Mapping[str, JsonValue], name: str) -> list[IntelDocument]:
    """Take the signed text with its signature beside it, or the whole answer of the PCS where there is none."""
    body = _text(value, name).encode("utf-8")
    if not body:
        return []
    if f"{name}_signature" not in value:
        return _answer(body)
    return [_checked(intel_document(_DOCUMENTS[name], body, _text(value, f"{name}_signature")))]


def _answer(data: bytes) -> list[IntelDocument]:
    return [_checked(parse_pcs_answer(data))]


def _checked(document: IntelDocument) -> IntelDocument:
    """Require that a document can be read, so that its provider gets the error now."""
    if document.kind == "tcb-info":
        parse_tcb_info(document.body)
    else:
        parse_qe_identity(document.body)
    return document


# -- what surrounds DER


def der_without_padding(der: bytes) -> bytes:
    """Cut NUL bytes and line ends behind a DER element, which several clients append to a list.

    Only what stands behind the length that the element itself states is cut, and only when it is nothing else: a
    signature may well end in such a byte.
    """
    end = _element_end(der)
    return der[:end] if end < len(der) and not der[end:].strip(_PADDING) else der


def _element_end(der: bytes) -> int:
    head = der[1:2]
    if not head:
        return len(der)
    if head[0] < _LONG_FORM:
        return 2 + head[0]
    size = head[0] - _LONG_FORM
    return 2 + size + int.from_bytes(der[2 : 2 + size], "big")


def hex_text_of(data: bytes) -> bytes | None:
    """Return the DER SEQUENCE that a whole file of hex digits spells, or None when it is no such file."""
    text = data.strip(_BLANKS)
    if len(text) % 2 or not _HEX_OF_SEQUENCE.fullmatch(text):
        return None
    return bytes.fromhex(text.decode("ascii"))


def percent_decoded_chains(data: bytes) -> bytes | None:
    """Return the PEM text of percent-encoded chains, as in headers of the PCS; None without any."""
    chains = _PERCENT_CHAIN.findall(data)
    if not chains:
        return None
    return b"\n".join(_PERCENT.sub(lambda pair: bytes.fromhex(pair[1].decode("ascii")), chain) for chain in chains)
