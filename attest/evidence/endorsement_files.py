"""Endorsements from files: certificates, revocation lists, vendors' own documents and answers, and bundles.

Each form is recognised once, by what only it begins with; no decoder is tried on the off chance. A file
of no known form is passed over with a note; a malformed one of a known form is passed over with a warning, and is then
missing. Nothing found here is trusted: everything is a candidate that verification judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from attest.endorsements.bundle import verify_bundle
from attest.endorsements.bundle_reader import is_bundle, parse_bundle
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES, BundleTrust, ParsedBundle, UnsignedBundles
from attest.endorsements.ocsp_answers import looks_like_ocsp, parse_ocsp
from attest.endorsements.pool import EndorsementLists, Endorsements
from attest.endorsements.rims import (
    looks_like_rim,
    looks_like_rim_answer,
    parse_rim_answer,
    read_rim_document,
)
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.errors import EndorsementError, EvidenceError
from attest.evidence.intel.collateral_forms import (
    der_without_padding,
    hex_text_of,
    looks_like_collateral,
    percent_decoded_chains,
    read_collateral,
)
from attest.evidence.snp.certificate_table import KINDS, parse_certificate_table

MAX_FILE_BYTES = MAX_BUNDLE_BYTES
"""The largest form is a bundle."""
MAX_FILES = 16_384
"""A directory with a certificate of each chip of a large site."""
MAX_ENDORSEMENTS = 16_384
"""Certificates, lists and documents together: at 10 to 20 µs each, a third of a second."""
MAX_PEM_BLOCKS = 4096
"""Maximum of PEM blocks in one file; the largest bundle of root certificates in common use has some 150."""

_PEM_LABEL = re.compile(rb"^-----BEGIN ([A-Z0-9 ]{1,40})-----", re.MULTILINE)
_PERCENT_PEM = b"-----BEGIN%20CERTIFICATE-----"
_Reader = Literal["certificate", "crl", "ocsp"]
_PEM_READERS: dict[bytes, _Reader] = {b"CERTIFICATE": "certificate", b"X509 CRL": "crl"}
_TABLE_READERS: dict[str, _Reader | None] = {
    "VCEK": "certificate",
    "VLEK": "certificate",
    "ASK": "certificate",
    "ARK": "certificate",
    "CRL": "crl",
    "PLATFORM": None,
}
_TABLE_GUIDS = frozenset(guid.bytes for guid in KINDS)
_NOTHING = "no certificate, revocation list, certificate table, RIM, OCSP answer or endorsement bundle"
_SEQUENCE = 0x30
_LONG_FORM = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class EndorsementFiles:
    """Endorsements read from files.

    Attributes:
        endorsements: the certificates and lists that could be read; candidates, not trusted.
        warnings: recognised and passed over, therefore missing: malformed, too large, expired.
        notes: passed over because it is no endorsement.
    """

    endorsements: Endorsements
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_endorsements(
    files: Iterable[tuple[str, bytes]], *, at: datetime, bundle_keys: BundleTrust = UnsignedBundles.ACCEPTED
) -> EndorsementFiles:
    """Read endorsements out of files of any recognised form.

    A bundle that must not be used (expired, from the future, not signed by a listed key) is passed over with a
    warning. Only its revocation lists and OCSP answers stay, as out of date: their revocations count.

    Args:
        files: name and content; at most ``MAX_FILES`` of at most ``MAX_FILE_BYTES`` each.
        at: moment of appraisal, aware; decides about the use of bundles, and about nothing else.
        bundle_keys: keys that may sign bundles; by default the vendors' signatures inside suffice.

    Raises:
        ValueError: ``at`` has no time zone; nothing else is raised for any bytes at all.
    """
    if at.tzinfo is None:
        raise ValueError("the moment of appraisal needs a time zone")
    reading = _Reading(at=at, bundle_keys=bundle_keys)
    for count, (name, data) in enumerate(files):
        if count == MAX_FILES or reading.full:
            limit = f"{MAX_ENDORSEMENTS} certificates and lists" if reading.full else f"{MAX_FILES} files"
            reading.warn(name, f"this file and those after it are left out: more than {limit}")
            break
        reading.take(name, data)
    return reading.outcome()


class _Reading:
    def __init__(self, *, at: datetime, bundle_keys: BundleTrust) -> None:
        self._at = at
        self._bundle_keys = bundle_keys
        self._found = EndorsementLists()
        self._outdated = EndorsementLists()
        self._warnings: list[str] = []
        self._notes: list[str] = []

    @property
    def full(self) -> bool:
        return len(self._found) + len(self._outdated) >= MAX_ENDORSEMENTS

    def outcome(self) -> EndorsementFiles:
        # A list or answer that is also available on its own counts as such: of equal ones the pool keeps the last.
        self._outdated.add(self._found)
        endorsements = self._outdated.pool()
        return EndorsementFiles(endorsements=endorsements, warnings=tuple(self._warnings), notes=tuple(self._notes))

    def warn(self, name: str, problem: str) -> None:
        self._warnings.append(f"{name}: {problem}")

    def _note(self, name: str, reason: str) -> None:
        self._notes.append(f"{name}: {reason}")

    def take(self, name: str, data: bytes) -> None:
        """Recognise one file by its first bytes; PEM by a line of its own, because text may precede it."""
        form = _form_of(data)
        if form is None:
            self._note(name, _NOTHING)
        elif len(data) > MAX_FILE_BYTES:
            self.warn(name, f"{len(data)} bytes, more than {MAX_FILE_BYTES}")
        else:
            self._take_form(form, name, data)

    def _take_form(self, form: _Form | _Reader, name: str, data: bytes) -> None:
        match form:
            case "bundle":
                self._take_bundle(name, data)
            case "table":
                self._take_table(name, data)
            case "collateral":
                self._take_collateral(name, data)
            case "rim":
                self._take_rim(name, data)
            case "hex":
                self.take(name, hex_text_of(data) or b"")
            case "pem":
                self._take_pem(name, percent_decoded_chains(data) or data)
            case _:
                self._take_der(name, data, form)

    def _take_der(self, name: str, der: bytes, reader: _Reader) -> None:
        try:
            if reader == "certificate":
                self._found.certificates.append(parse_certificate(der))
            elif reader == "ocsp":
                self._found.ocsp.append(parse_ocsp(der))
            else:
                self._found.crls.append(parse_crl(der_without_padding(der)))
        except EvidenceError as exc:
            self.warn(name, exc.message)

    def _take_pem(self, name: str, text: bytes) -> None:
        heads = list(_PEM_LABEL.finditer(text))
        if len(heads) > MAX_PEM_BLOCKS:
            self.warn(name, f"{len(heads)} PEM blocks, more than {MAX_PEM_BLOCKS}")
            return
        # Block by block, so that one that is broken takes none of its neighbours along.
        ends = [head.start() for head in heads[1:]] + [len(text)]
        for number, (head, end) in enumerate(zip(heads, ends, strict=True), start=1):
            place, label = f"{name}, PEM block {number}", head[1]
            if label in _PEM_READERS:
                self._take_block(place, label, text[head.start() : end])
            else:
                self._note(place, f"{label.decode()} is not an endorsement")

    def _take_block(self, place: str, label: bytes, text: bytes) -> None:
        try:
            blocks = pem_blocks(text)
        except EvidenceError as exc:
            self.warn(place, exc.message)
            return
        if blocks:
            self._take_der(place, blocks[0][1], _PEM_READERS[label])
        else:
            self.warn(place, f"{label.decode()} without its end, or with content that is not base64")

    def _take_table(self, name: str, data: bytes) -> None:
        try:
            entries = parse_certificate_table(data)
        except EvidenceError as exc:
            self.warn(name, exc.message)
            return
        for entry in entries:
            reader = _TABLE_READERS[entry.kind]
            if reader is not None:
                self._take_der(f"{name}, {entry.kind} of the certificate table", entry.data, reader)

    def _take_rim(self, name: str, data: bytes) -> None:
        """Take a RIM as it was signed, or the JSON in which NVIDIA's service serves it, after comparing the digest."""
        try:
            self._found.rims.append(
                read_rim_document(data) if looks_like_rim(data) else parse_rim_answer(data).document
            )
        except EvidenceError as exc:
            self.warn(name, exc.message)

    def _take_collateral(self, name: str, data: bytes) -> None:
        try:
            reading = read_collateral(data)
        except EvidenceError as exc:
            self.warn(name, exc.message)
            return
        if reading is None:
            self._note(name, _NOTHING)
            return
        self._found.add(reading.found)
        for problem in reading.problems:
            self.warn(name, problem)

    def _take_bundle(self, name: str, data: bytes) -> None:
        bundle: ParsedBundle | None = None
        try:
            bundle = parse_bundle(data)
            found = verify_bundle(bundle, at=self._at, keys=self._bundle_keys).endorsements
        except EndorsementError as exc:
            self.warn(name, f"{exc.message} ({exc.code})")
            if bundle is not None:
                self._keep_negatives(bundle.endorsements)
            return
        self._found.add(found)

    def _keep_negatives(self, found: Endorsements) -> None:
        """Keep lists and answers as out of date: their revocations count, and absence from them proves nothing."""
        self._outdated.crls += [replace(crl, next_update=crl.this_update) for crl in found.crls]
        self._outdated.ocsp += [replace(answer, next_update=answer.this_update) for answer in found.ocsp]


# -- recognition


_Form = Literal["bundle", "table", "collateral", "rim", "hex", "pem"]


def _form_of(data: bytes) -> _Form | _Reader | None:
    if is_bundle(data):
        return "bundle"
    if data[:16] in _TABLE_GUIDS:
        return "table"
    if (der := _der_kind(data)) is not None:
        return der
    if len(data) <= MAX_FILE_BYTES and _der_kind(hex_text_of(data) or b"") is not None:
        return "hex"
    if looks_like_rim(data) or looks_like_rim_answer(data):
        return "rim"
    if looks_like_collateral(data):
        return "collateral"
    return "pem" if _PEM_LABEL.search(data, 0, MAX_FILE_BYTES) or _PERCENT_PEM in data[:MAX_FILE_BYTES] else None


def _der_kind(data: bytes) -> _Reader | None:
    """Distinguish a certificate from a revocation list by the first element of the signed part.

    Both are a SEQUENCE of a SEQUENCE; a v3 certificate goes on with its version under the tag [0], a v2 list with
    the bare INTEGER 1 and the algorithm. An OCSP answer is a SEQUENCE of its status. Requests and private keys go on
    otherwise.
    """
    if looks_like_ocsp(data):
        return "ocsp"
    first = _content_of_sequence(data, _content_of_sequence(data, 0))
    if data[first : first + 1] == b"\xa0":
        return "certificate"
    return "crl" if data[first : first + 4] == b"\x02\x01\x01\x30" else None


def _content_of_sequence(data: bytes, at: int) -> int:
    """Offset of what the SEQUENCE at this offset holds; the end of the data when no SEQUENCE begins here."""
    head = data[at : at + 2]
    if len(head) < 2 or head[0] != _SEQUENCE:
        return len(data)
    return at + 2 + (head[1] - _LONG_FORM if head[1] > _LONG_FORM else 0)
