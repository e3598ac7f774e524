"""Revocation status of one certificate by OCSP (RFC 6960), in the form of NVIDIA's responder.

An answer is signed by the issuer of the certificate itself, or by a responder with a certificate of this issuer for
the purpose. Responders of the vendor's other CAs, or of the root, do not count.

Precedence of answers and lists:

* A genuine negative refuses with any date. A hold is the exception: RFC 5280 allows its
  removal, so a genuine, current, good and newer answer takes precedence.
* Otherwise the newest genuine, current answer counts: good passes, unknown refuses.
* Without a current answer, a genuine and current revocation list of the issuer without the certificate
  suffices. NVIDIA's own verifiers use no lists; sites without a network can.

Spec: specs/nvidia-gpu.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.encoding import rfc3339_text
from attest.endorsements.asn1 import tlv
from attest.endorsements.chains import KEY_USAGE, UNDERSTOOD_CRITICAL, has_usage, require_current_crl
from attest.endorsements.ocsp_answers import OcspAnswer, OcspStatus
from attest.endorsements.signatures import SignatureAlgorithm, algorithm_of, signature_holds
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import ChainError, EndorsementError, RevokedError

_REMEMBERED = 256
_EXTENDED_KEY_USAGE = "2.5.29.37"
_UNDERSTOOD_CRITICAL = UNDERSTOOD_CRITICAL | {_EXTENDED_KEY_USAGE}
_DIGITAL_SIGNATURE = 0
_ECDSA = frozenset({SignatureAlgorithm.ECDSA_SHA256, SignatureAlgorithm.ECDSA_SHA384})
_SEVERITY = (OcspStatus.GOOD, OcspStatus.UNKNOWN, OcspStatus.REVOKED)
"""Order of statuses: of two answers for the same moment, the worse one counts."""
_CLAUSE: Final = "RFC 6960, section 3.2"


@asn1.sequence
class _PurposesHolder:
    """An ExtendedKeyUsage inside another SEQUENCE: the decoder needs a declared outer structure."""

    purposes: list[x509.ObjectIdentifier]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Genuine:
    """An answer with an authorised signer; ``responder`` is None for the issuer itself."""

    answer: OcspAnswer
    responder: Certificate | None

    def is_current(self, at: datetime) -> bool:
        return self.begins <= at < self.answer.ends and (self.responder is None or at <= self.responder.not_after)

    @property
    def begins(self) -> datetime:
        begins = self.answer.this_update
        return begins if self.responder is None else max(begins, self.responder.not_before)

    @property
    def rank(self) -> tuple[datetime, int]:
        return self.answer.this_update, _SEVERITY.index(self.answer.status)


def require_not_revoked(
    certificate: Certificate,
    issuer: Issuer,
    *,
    answers: tuple[OcspAnswer, ...],
    crls: tuple[Crl, ...],
    at: datetime,
    hold: str | None = None,
) -> OcspAnswer | Crl:
    """Return the genuine answer or list that shows, at ``at``, that a certificate is not revoked.

    ``issuer`` is its verified issuer; answers and lists of others do not count. Nonces are not compared: the requester
    has done so, and stored answers are judged by their dates (``this_update <= at < next_update``, and the responder's
    certificate is valid). Reasons of a list's entries are not read, so no hold in one is tolerated.

    ``hold`` is the reason to tolerate a hold, for RIM signers only; None tolerates none. A tolerated hold is itself
    returned, for display; a current answer is necessary all the same.

    Raises:
        RevokedError: ``certificate-revoked``, by a genuine answer or list of any date.
        ChainError: ``certificate-status-unknown``, the responder does not know the certificate;
            ``ocsp-signature-invalid`` or ``crl-signature-invalid``, only forged ones in this name;
            ``public-key-invalid``, the issuer's.
        EndorsementError: ``ocsp-missing``, ``ocsp-expired`` or ``ocsp-not-yet-valid``; or ``crl-expired`` or
            ``crl-not-yet-valid`` with lists only.
    """
    named = tuple(answer for answer in answers if answer.concerns(certificate.serial, issuer))
    genuine = tuple(found for answer in named if (found := _genuine(answer, issuer)) is not None)
    current = tuple(found for found in genuine if found.is_current(at))
    held = _refuse_negatives(certificate, issuer, genuine, current=current, hold=hold)
    crl, problem = _list_of(certificate, issuer, crls, at=at)
    if current:
        newest = max(current, key=lambda found: found.rank).answer
        if newest.status is OcspStatus.UNKNOWN:
            raise _unknown(certificate, issuer, newest)
        return held or newest
    if crl is not None:
        return held or crl
    if genuine:
        raise _not_current(certificate, max(genuine, key=lambda found: found.rank), at=at)
    if named:
        raise _forged(certificate, issuer)
    raise problem or _missing(certificate, at=at)


def _refuse_negatives(
    certificate: Certificate,
    issuer: Issuer,
    genuine: tuple[_Genuine, ...],
    *,
    current: tuple[_Genuine, ...],
    hold: str | None,
) -> OcspAnswer | None:
    """Refuse revoked certificates, and return a standing, tolerated hold."""
    good = [found.answer.this_update for found in current if found.answer.status is OcspStatus.GOOD]
    held: OcspAnswer | None = None
    for answer in (found.answer for found in sorted(genuine, key=lambda found: found.rank)):
        released = answer.is_on_hold and any(moment > answer.this_update for moment in good)
        if answer.status is not OcspStatus.REVOKED or released:
            continue
        if not answer.is_on_hold or hold is None:
            raise _revoked(certificate, issuer, answer)
        held = answer
    return held


def _list_of(
    certificate: Certificate, issuer: Issuer, crls: tuple[Crl, ...], *, at: datetime
) -> tuple[Crl | None, ChainError | EndorsementError | None]:
    """Return a current list of the issuer, or the defect of those in its name; both None without lists."""
    if not any(crl.issuer == issuer.subject for crl in crls):
        return None, None
    try:
        return require_current_crl(crls, issuer, serials=(certificate.serial,), at=at), None
    except (ChainError, EndorsementError) as exc:
        return None, exc


# -- responders


def _genuine(answer: OcspAnswer, issuer: Issuer) -> _Genuine | None:
    """Return the answer with its signer; None unless that is the issuer or its responder.

    NOTE: ResponderID is not compared. It names the signer, but the signer's certificate authorises.
    """
    for certificate in answer.certificates:
        if _is_responder_of(certificate, issuer) and _is_signed_by(answer, certificate.spki):
            return _Genuine(answer=answer, responder=certificate)
    return _Genuine(answer=answer, responder=None) if _is_signed_by(answer, issuer.spki) else None


def _is_signed_by(answer: OcspAnswer, spki: bytes) -> bool:
    return signature_holds(answer.tbs, answer.signature, answer.algorithm, spki)


def _is_responder_of(certificate: Certificate, issuer: Issuer) -> bool:
    """Return True if the issuer certified a responder: name, signature, OCSPSigning, no unknown critical extension.

    NOTE: the responder's own revocation is not checked; only the same issuer could answer, by a responder again
    (RFC 6960, section 4.2.2.2.1). Its dates are checked where an answer has to be current.
    """
    return (
        certificate.issuer == issuer.subject
        and algorithm_of(certificate.algorithm) in _ECDSA
        and all(extension.oid in _UNDERSTOOD_CRITICAL for extension in certificate.extensions if extension.critical)
        and _may_answer(certificate)
        and signature_holds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki)
    )


@lru_cache(maxsize=_REMEMBERED)
def _may_answer(certificate: Certificate) -> bool:
    """Return True if a certificate has the purpose OCSPSigning, and a keyUsage, if any, that permits signatures."""
    purposes, usage = certificate.extension(_EXTENDED_KEY_USAGE), certificate.extension(KEY_USAGE)
    if purposes is None:
        return False
    try:
        decoded = asn1.decode_der(_PurposesHolder, tlv(0x30, purposes.value)).purposes
        may_sign = usage is None or has_usage(usage.value, _DIGITAL_SIGNATURE)
    except ValueError:
        return False
    return ExtendedKeyUsageOID.OCSP_SIGNING in decoded and may_sign


# -- refusals


def _revoked(certificate: Certificate, issuer: Issuer, answer: OcspAnswer) -> RevokedError:
    reason = answer.revocation_reason or "no reason stated"
    since = "" if answer.revocation_time is None else f" since {rfc3339_text(answer.revocation_time)}"
    return RevokedError(
        f"{issuer.name} revoked {certificate.name}{since} ({reason})",
        code="certificate-revoked",
        expected="status good",
        got=f"status revoked ({reason}) in the OCSP answer of {rfc3339_text(answer.this_update)}",
        clause=_CLAUSE,
    )


def _unknown(certificate: Certificate, issuer: Issuer, answer: OcspAnswer) -> ChainError:
    return ChainError(
        f"the responder of {issuer.name} does not know {certificate.name} with serial {certificate.serial}",
        code="certificate-status-unknown",
        expected="status good",
        got=f"status unknown in the OCSP answer of {rfc3339_text(answer.this_update)}",
        clause=_CLAUSE,
    )


def _forged(certificate: Certificate, issuer: Issuer) -> ChainError:
    return ChainError(
        f"the OCSP answer about {certificate.name} is signed neither by {issuer.name} nor by one of its responders",
        code="ocsp-signature-invalid",
        expected=f"a signature by {issuer.name}, or by a certificate of it for OCSPSigning",
        got="one that does not verify, or by another signer",
        clause="RFC 6960, section 4.2.2.2",
    )


def _not_current(certificate: Certificate, found: _Genuine, *, at: datetime) -> EndorsementError:
    early = at < found.begins
    ends, what = found.answer.ends, "the OCSP answer"
    if found.responder is not None and not early and at < ends:
        ends, what = found.responder.not_after, "the certificate of the responder of the OCSP answer"
    return EndorsementError(
        f"{what} about {certificate.name} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code="ocsp-not-yet-valid" if early else "ocsp-expired",
        expected=f"an answer that is current at {rfc3339_text(at)}",
        got=f"{rfc3339_text(found.begins)} to {rfc3339_text(ends)}",
        clause=_CLAUSE,
        hint="fetch a newer one with 'attest endorsements fetch'",
        retryable=True,
    )


def _missing(certificate: Certificate, *, at: datetime) -> EndorsementError:
    return EndorsementError(
        f"no OCSP answer about {certificate.name} with serial {certificate.serial} is available",
        code="ocsp-missing",
        expected=f"an OCSP answer that is current at {rfc3339_text(at)}",
        got="none",
        clause=_CLAUSE,
        hint="fetch it with 'attest endorsements fetch', or skip the check with --unchecked revocation=REASON",
        retryable=True,
    )
