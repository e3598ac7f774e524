"""The endorsement of a utility VM's measurement, as Azure's confidential containers carry it: COSE_Sign1 over JSON.

::

    18([protected, unprotected, payload, signature])
    protected = {1: alg, 3: "application/json", 33: x5chain, "iss": did:x509, "feed": text, …}
    payload   = {"x-ms-sevsnpvm-launchmeasurement": hex of MEASUREMENT, "x-ms-sevsnpvm-guestsvn": text or number, …}
    iss       = did:x509:0:sha256:<base64url of SHA-256 over a CA of x5chain>::eku:<purpose of the leaf>

Microsoft's root is known by the digest that these identifiers name. The certificates' dates are compared with each
other and not with the moment of appraisal: the endorsement states no date, and outlives its signer's certificate.
Revocation is not checked either, because no list is available. The feed and the SVN are claims that a policy may
restrict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from cryptography.hazmat import asn1

from attest.encoding import JsonValue, base64url_text, hex_bytes, json_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.asn1 import ExtendedKeyUsageHolder, tlv
from attest.endorsements.chains import require_ca
from attest.endorsements.cose import algorithm_numbers, cose_signature_holds
from attest.endorsements.malformed import malformed
from attest.endorsements.signatures import load_public_key, signature_holds
from attest.endorsements.tagged_cbor import Tagged, TaggedKey, TaggedValue, read_tagged
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import ChainError, EvidenceError, SignatureError, UnsupportedError
from attest.evidence.attachment.record import AttachmentFormat, Attested, VerifiedAttachment, is_simulated
from attest.evidence.procedure import Procedure, Step, require_equal
from attest.evidence.snp.evidence import ParsedSnpEvidence

MAX_UVM_ENDORSEMENT_BYTES = 64 * 1024
"""Published ones have some 6 KiB, nearly all of it certificates."""
MAX_CHAIN = 8
MAX_TEXT_CHARACTERS = 4096
MICROSOFT_ROOTS: Mapping[str, str] = {
    "I__iuL25oXEVFdTP_aBLx_eT1RPHbCQ_ECBQfYZpt9s": "Microsoft Supply Chain RSA Root CA 2022",
}
"""Roots by base64url of the SHA-256 of the certificate, as identifiers name them."""
SIMULATED_ROOTS: Mapping[str, str] = {
    "e6siJO4gUs_e4iNeBH0766dJf2tHtxglFORfFuRQHYI": "SIMULATED UVM Root CA",
}
_COSE_SIGN1 = 18
_ALGORITHM, _CRITICAL, _CONTENT_TYPE, _X5CHAIN = 1, 2, 3, 33
_JSON = "application/json"
_MEASUREMENT, _SVN = "x-ms-sevsnpvm-launchmeasurement", "x-ms-sevsnpvm-guestsvn"
_EXTENDED_KEY_USAGE = "2.5.29.37"
_DID = re.compile(r"did:x509:0:sha256:([A-Za-z0-9_-]{43})::eku:((?:[0-9]{1,10}\.){1,24}[0-9]{1,10})")
_CLAUSE = "RFC 9052, 4.2; docs/forms.md"


class UvmSteps(NamedTuple):
    """Every check of an endorsement, in order."""

    signature: Step = Step("uvm.signature", "RFC 9052, 4.4")
    chain: Step = Step("uvm.chain", "RFC 9360, x5chain; RFC 5280")
    issuer: Step = Step("uvm.issuer", "did:x509, version 0")
    measurement: Step = Step("uvm.measurement", "docs/forms.md")


_STEPS = UvmSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUvmEndorsement:
    """An endorsement as presented; nothing of it is trusted.

    Attributes:
        protected: the signed header.
        chain: leaf first.
        issuer: the identifier of its signer.
        measurement: 48 bytes.
        svn: of the utility VM, as the payload states it.
    """

    algorithm: int
    protected: bytes
    payload: bytes
    signature: bytes
    chain: tuple[Certificate, ...]
    issuer: str
    feed: str
    measurement: bytes
    svn: str


def parse_uvm_endorsement(data: bytes) -> ParsedUvmEndorsement:
    """Read an endorsement.

    Raises:
        EvidenceError: ``uvm-endorsement-malformed``, ``cbor-invalid``, ``json-invalid``, ``hex-invalid`` or
            ``certificate-malformed``.
    """
    if len(data) > MAX_UVM_ENDORSEMENT_BYTES:
        raise _malformed("endorsement", f"at most {MAX_UVM_ENDORSEMENT_BYTES} bytes", f"{len(data)} bytes")
    document = read_tagged(data, what="UVM endorsement")
    parts = document.value if isinstance(document, Tagged) and document.tag == _COSE_SIGN1 else None
    match parts:
        case (bytes(protected), Mapping(), bytes(payload), bytes(signature)):
            header = read_tagged(protected, what="protected header of the UVM endorsement")
        case _:
            raise _malformed("endorsement", "COSE_Sign1: tag 18 and four members", "another value")
    if not isinstance(header, Mapping) or _CRITICAL in header or header.get(_CONTENT_TYPE) != _JSON:
        raise _malformed("protected header", f"a map without crit (2), of content type {_JSON}", "another value")
    measurement, svn = _statement(payload)
    return ParsedUvmEndorsement(
        algorithm=_algorithm(header.get(_ALGORITHM)),
        protected=protected,
        payload=payload,
        signature=signature,
        chain=_chain(header.get(_X5CHAIN)),
        issuer=_text(header, "iss"),
        feed=_text(header, "feed"),
        measurement=measurement,
        svn=svn,
    )


def _algorithm(value: TaggedValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _malformed("alg", "an algorithm's number", "another value")
    return value


def _text(header: Mapping[TaggedKey, TaggedValue], name: str) -> str:
    value = header.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARACTERS or not value.isprintable():
        raise _malformed(name, f"1 to {MAX_TEXT_CHARACTERS} printable characters", "another value, or none")
    return value


def _chain(value: TaggedValue) -> tuple[Certificate, ...]:
    ders = value if isinstance(value, tuple) else ()
    found = tuple(parse_certificate(der) for der in ders[:MAX_CHAIN] if isinstance(der, bytes))
    if len(found) != len(ders) or len(found) < 2:
        raise _malformed("x5chain", f"2 to {MAX_CHAIN} certificates", f"{len(ders)} values")
    return found


def _statement(payload: bytes) -> tuple[bytes, str]:
    document = json_value(payload, what="payload of the UVM endorsement")
    members = document if isinstance(document, dict) else {}
    measurement, svn = members.get(_MEASUREMENT), members.get(_SVN)
    if not isinstance(measurement, str):
        raise _malformed(_MEASUREMENT, "48 bytes in hex", "another value, or none")
    if isinstance(svn, bool) or not isinstance(svn, int | str) or not re.fullmatch("[0-9]{1,10}", str(svn)):
        raise _malformed(_SVN, "a number of at most 10 digits, perhaps as text", "another value, or none")
    return hex_bytes(measurement, what=_MEASUREMENT, length=48), str(svn)


# -- verification


def verify_uvm_endorsement(
    endorsement: ParsedUvmEndorsement, attested: Attested, anchors: TrustAnchors
) -> VerifiedAttachment:
    """Verify that Microsoft endorsed the measurement of an SNP report.

    Raises:
        SignatureError: ``uvm-signature-invalid``.
        ChainError: ``uvm-chain-invalid``, ``uvm-issuer-mismatch``, ``uvm-root-not-trusted``, ``public-key-invalid``,
            ``ca-flags-missing`` or ``critical-extension-unknown``.
        BindingError: ``uvm-measurement-mismatch``.
        UnsupportedError: ``evidence-unsupported``, beside other evidence than an SNP report.
    """
    procedure = Procedure(_STEPS)
    with procedure.step(_STEPS.signature):
        _require_signature(endorsement)
        procedure.record("COSE_Sign1 by the first certificate", ("algorithm {} verifies", endorsement.algorithm))
    with procedure.step(_STEPS.chain):
        _require_chain(endorsement.chain)
        procedure.record("each certificate issued by the next", f"{len(endorsement.chain)} certificates")
    with procedure.step(_STEPS.issuer):
        root, simulated = _require_issuer(endorsement, anchors)
        procedure.record("an identifier of a known root and the signer's purpose", f"{root}; {endorsement.issuer}")
    with procedure.step(_STEPS.measurement):
        _require_measurement(endorsement, attested)
        procedure.record("the measurement of the SNP report", endorsement.measurement)
    claims: dict[str, JsonValue] = {
        "issuer": endorsement.issuer,
        "feed": endorsement.feed,
        "svn": int(endorsement.svn),
        "measurement": endorsement.measurement.hex(),
        "root": root,
    }
    return VerifiedAttachment(claims=claims, findings=procedure.finish(), simulated=simulated)


def _require_signature(endorsement: ParsedUvmEndorsement) -> None:
    key = load_public_key(endorsement.chain[0].spki)
    holds = cose_signature_holds(
        key,
        algorithm=endorsement.algorithm,
        protected=endorsement.protected,
        payload=endorsement.payload,
        signature=endorsement.signature,
    )
    if not holds:
        raise SignatureError(
            "the signature of the UVM endorsement does not verify",
            code="uvm-signature-invalid",
            field="signature",
            expected=f"a signature by the first certificate, of algorithm {algorithm_numbers(key)}",
            got=f"one of algorithm {endorsement.algorithm} that does not verify",
        )


def _require_chain(chain: tuple[Certificate, ...]) -> None:
    """Require a chain in which each certificate is issued by the next, all of them valid at one moment."""
    for child, parent in pairwise(chain):
        require_ca(parent)
        issued = child.issuer == parent.subject
        if not issued or not signature_holds(child.tbs, child.signature, child.algorithm, parent.spki):
            raise _broken(f"{child.name} is not issued by {parent.name}", f"a certificate of {parent.name}")
    begins, ends = max(each.not_before for each in chain), min(each.not_after for each in chain)
    if begins > ends:
        raise _broken("the certificates were never valid together", "overlapping dates")


def _broken(problem: str, expected: str) -> ChainError:
    return ChainError(
        f"the chain of the UVM endorsement does not hold: {problem}",
        code="uvm-chain-invalid",
        field="x5chain",
        expected=expected,
        got=problem,
    )


def _require_issuer(endorsement: ParsedUvmEndorsement, anchors: TrustAnchors) -> tuple[str, bool]:
    """Return the name of the pinned root that the identifier names, and True if it is the simulator's."""
    match = _DID.fullmatch(endorsement.issuer)
    authorities = [base64url_text(sha256(each.der).digest()) for each in endorsement.chain[1:]]
    if match is None or match[1] not in authorities or match[2] not in _purposes(endorsement.chain[0]):
        raise ChainError(
            "the issuer of the UVM endorsement does not name its chain",
            code="uvm-issuer-mismatch",
            field="iss",
            expected="did:x509:0:sha256 of a CA in the chain, and a purpose of the first certificate",
            got=endorsement.issuer[:200],
        )
    simulated = match[1] in SIMULATED_ROOTS and is_simulated(anchors)
    root = MICROSOFT_ROOTS.get(match[1]) or (SIMULATED_ROOTS[match[1]] if simulated else None)
    if root is None:
        raise ChainError(
            "the root of the UVM endorsement is not a Microsoft root that this version knows",
            code="uvm-root-not-trusted",
            field="iss",
            expected=", ".join(f"{name} ({pin})" for pin, name in MICROSOFT_ROOTS.items()),
            got=match[1],
        )
    return root, simulated


def _purposes(leaf: Certificate) -> tuple[str, ...]:
    extension = leaf.extension(_EXTENDED_KEY_USAGE)
    if extension is None:
        return ()
    try:
        holder = asn1.decode_der(ExtendedKeyUsageHolder, tlv(0x30, extension.value))
    except ValueError:
        return ()
    return tuple(purpose.dotted_string for purpose in holder.purposes)


def _require_measurement(endorsement: ParsedUvmEndorsement, attested: Attested) -> None:
    if not isinstance(attested.parsed, ParsedSnpEvidence):
        raise UnsupportedError(
            f"a UVM endorsement beside evidence of kind {attested.kind}, which this version does not verify",
            code="evidence-unsupported",
            field="uvm_endorsements",
            expected="a UVM endorsement beside an SNP report",
            got=attested.kind,
        )
    problem = "the UVM endorsement is of another measurement than the report's"
    found = attested.parsed.report.measurement
    require_equal(endorsement.measurement, found, problem, code="uvm-measurement-mismatch", field="MEASUREMENT")


UVM_ENDORSEMENT = AttachmentFormat(name="uvm", parse=parse_uvm_endorsement, verify=verify_uvm_endorsement)


def _malformed(field: str, expected: str, got: str) -> EvidenceError:
    code, of = "uvm-endorsement-malformed", " of the UVM endorsement"
    return malformed(field, expected, got, code=code, of=of, clause=_CLAUSE)
