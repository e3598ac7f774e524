"""Signature of a quote by a Quoting Enclave that Intel certified: checks T02 to T06, which need no collateral.

::

    quote ← attestation key ← QE report ← PCK certificate ← Platform or Processor CA ← Intel SGX Root CA (pinned)

Each link is a function of its own; ``attest.evidence.intel.verify`` takes them in order.

Three things need collateral and stay open: whether the enclave that signed is Intel's Quoting Enclave (the provisioning
key certifies any enclave that may use it), whether anything was revoked, and how current the platform is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.candidates import MAX_CANDIDATES, best_candidate
from attest.endorsements.chains import require_not_listed
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import PublicKey, load_public_key, signature_holds
from attest.errors import AttestError, ChainError, EndorsementError, EvidenceError, SignatureError
from attest.evidence.intel.chain import (
    P256_SPKI_HEAD,
    PckChain,
    embedded_certificates,
    find_pck_chain,
    require_p256,
)
from attest.evidence.intel.pck import PCK_COMMON_NAME, PckCertificate, read_pck
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.procedure import require_equal

_ECDSA = ec.ECDSA(hashes.SHA256())
_ECDSA_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_COORDINATE_BYTES = 32
_UNUSED_REPORT_DATA = bytes(32)
_PPID_CLEAR = 1
_PPID_TYPES = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticQuote:
    """A quote whose signatures and chain hold, and which is NOT verified yet: no collateral was looked at.

    Revocation, the Quoting Enclave's identity and the TCB are still open. Nothing may be granted on this.

    Attributes:
        quote: the quote; its body is what some enclave with a certified key signed.
    """

    quote: ParsedQuote
    chain: PckChain
    at: datetime


# -- T02, T03: the PCK certificates that may have signed the QE report


def pck_candidates(quote: ParsedQuote, endorsements: Endorsements, *, at: datetime) -> tuple[PckCertificate, ...]:
    """Return the PCK certificates that may belong to the quote: its own, or available ones of its platform.

    A quote with a chain counts with the first certificate of it and no other. Those valid at ``at`` come first: a
    renewed certificate has the key of the old one.

    Raises:
        EvidenceError: ``certificate-malformed``, ``base64-invalid`` or ``pck-malformed``; of certificates available
            only when none of them can be read.
        ChainError: ``pck-name-unexpected``, as above.
    """
    embedded = embedded_certificates(quote)
    if embedded:
        return (read_pck(embedded[0]),)
    fitting = [pck for pck in _available_pcks(endorsements) if _is_of_platform(pck, quote)]
    fitting.sort(key=lambda pck: not pck.certificate.not_before <= at <= pck.certificate.not_after)
    return tuple(fitting[:MAX_CANDIDATES])


def _available_pcks(endorsements: Endorsements) -> list[PckCertificate]:
    readable: list[PckCertificate] = []
    refusal: AttestError | None = None
    for certificate in endorsements.with_common_name(PCK_COMMON_NAME):
        try:
            readable.append(read_pck(certificate))
        except (EvidenceError, ChainError) as exc:
            refusal = refusal or exc
    if refusal is not None and not readable:
        raise refusal
    return readable


def _is_of_platform(pck: PckCertificate, quote: ParsedQuote) -> bool:
    """Compare PCEID for certification data 1 to 3, and PPID for type 1, where it can be read.

    The CPUSVN there is not compared: it counts as the processor does, the certificate as Intel's TCB info does.
    """
    data = quote.certification_data
    if quote.certification_type == _PPID_CLEAR and data[: len(pck.ppid)] != pck.ppid:
        return False
    return quote.certification_type not in _PPID_TYPES or data[-len(pck.pce_id) :] == pck.pce_id


# -- T04: the QE report


def certifying_pcks(quote: ParsedQuote, candidates: tuple[PckCertificate, ...]) -> tuple[PckCertificate, ...]:
    """T04: return the PCK certificates whose key signed the QE report; outcomes are remembered by bytes.

    Several have the key when one was renewed, or when a copy is damaged. Without any candidate there are none:
    ``find_chain`` reports that, after all checks that can fail.

    Raises:
        SignatureError: ``qe-report-signature-invalid``.
        ChainError: ``public-key-invalid``: a PCK whose key is not one of P-256.
    """
    signature = _der(quote.qe_report_signature)
    certifying: list[PckCertificate] = []
    refusal: ChainError | None = None
    for pck in candidates:
        certificate = pck.certificate
        try:
            require_p256(certificate.name, certificate.spki)
            if signature_holds(quote.qe_report.raw, signature, _ECDSA_SHA256, certificate.spki):
                certifying.append(pck)
        except ChainError as exc:
            refusal = refusal or exc
    if certifying or not candidates:
        return tuple(certifying)
    raise refusal or SignatureError(
        "the Quoting Enclave's report is not signed by the key of the PCK certificate",
        code="qe-report-signature-invalid",
        field="QE report signature",
        expected="ECDSA P-256 with SHA-256 by the PCK over the 384 bytes of the QE report",
        got="a signature that does not verify",
        clause="Intel DCAP, QE report signature",
    )


def find_chain(
    quote: ParsedQuote,
    certifying: tuple[PckCertificate, ...],
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
) -> PckChain:
    """T02: return the chain of a PCK certificate; a quote with certification data 1 to 4 brings none along.

    Raises:
        AttestError: as ``find_pck_chain``.
        EndorsementError: ``pck-certificate-missing``.
    """

    def chain_of(pck: PckCertificate) -> PckChain:
        return find_pck_chain(pck, quote, endorsements=endorsements, anchors=anchors, at=at)

    def require_unrevoked(pck: PckCertificate) -> None:
        require_not_listed(endorsements.crls, chain_of(pck).issuer.as_issuer(), pck.certificate.serial)

    pck = best_candidate(certifying, chain_of, require_unrevoked)
    if pck is not None:
        return chain_of(pck)
    raise EndorsementError(
        f"the quote carries no PCK certificate (certification data of type {quote.certification_type}), "
        "and no certificate of its platform is available",
        code="pck-certificate-missing",
        field="certification data",
        expected="the PCK certificate of this platform",
        got="none",
        clause="Intel DCAP, QE certification data",
        hint="give the PCK certificate chain with --endorsements PATH",
    )


# -- T05, T06: checks without certificates


def require_attestation_key(quote: ParsedQuote) -> None:
    """T05: require the QE report to commit to the attestation key and the authentication data.

    Both halves of REPORTDATA are compared, the second with zero.

    Raises:
        BindingError: ``attestation-key-mismatch``.
    """
    committed = sha256(quote.attestation_key + quote.qe_auth_data).digest() + _UNUSED_REPORT_DATA
    require_equal(
        committed,
        quote.qe_report.report_data,
        "the Quoting Enclave's report commits to another attestation key than the quote carries",
        code="attestation-key-mismatch",
        field="REPORTDATA of the QE report",
        clause="Intel DCAP, QE report data",
    )


def require_quote_signature(quote: ParsedQuote) -> None:
    """T06: require the attestation key's signature over header, descriptor and body. Never remembered.

    Raises:
        SignatureError: ``attestation-key-invalid``, no point of P-256; or ``quote-signature-invalid``.
    """
    key = _attestation_key(quote)
    try:
        key.verify(_der(quote.signature), quote.signed_bytes, _ECDSA)  # type: ignore[call-arg,arg-type]  # by its head
    except InvalidSignature as exc:
        raise SignatureError(
            "the quote's signature does not verify with its attestation key",
            code="quote-signature-invalid",
            field="quote signature",
            offset=len(quote.signed_bytes) + 4,
            expected=f"ECDSA P-256 with SHA-256 over bytes 0 to {len(quote.signed_bytes) - 1}",
            got="a signature that does not verify",
            clause="Intel DCAP, ECDSA quote signature",
        ) from exc


def _attestation_key(quote: ParsedQuote) -> PublicKey:
    try:
        return load_public_key(P256_SPKI_HEAD + quote.attestation_key)
    except ChainError as exc:
        raise SignatureError(
            "the attestation key is not a point of P-256",
            code="attestation-key-invalid",
            field="attestation key",
            expected="x and y of a point of P-256, 32 bytes each, big-endian",
            got=quote.attestation_key.hex(),
            clause="Intel DCAP, ECDSA quote signature",
        ) from exc


def _der(signature: bytes) -> bytes:
    r, s = signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:]
    return encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
