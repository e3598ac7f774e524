"""Rules common to every vendor's chain: issuing, validity and revocation."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from cryptography.hazmat import asn1

from attest.encoding import rfc3339_text
from attest.endorsements.asn1 import BasicConstraints, KeyUsageHolder, tlv
from attest.endorsements.signatures import SignatureAlgorithm, algorithm_of, signature_holds
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import ChainError, EndorsementError, RevokedError

_REMEMBERED = 1024
_BASIC_CONSTRAINTS = "2.5.29.19"
_KEY_USAGE = "2.5.29.15"
_UNDERSTOOD_CRITICAL = frozenset({_BASIC_CONSTRAINTS, _KEY_USAGE})
_KEY_CERT_SIGN = 5


@lru_cache(maxsize=_REMEMBERED)
def require_ca(certificate: Certificate) -> None:
    """Require a CA certificate: CA:TRUE and keyCertSign, without unknown critical extensions.

    NOTE: pathLenConstraint is not compared; each vendor's procedure fixes the length of its chain.

    Raises:
        ChainError: ``ca-flags-missing`` or ``critical-extension-unknown``.
    """
    _require_understood(certificate)
    constraints = certificate.extension(_BASIC_CONSTRAINTS)
    usage = certificate.extension(_KEY_USAGE)
    try:
        is_ca = constraints is not None and asn1.decode_der(BasicConstraints, constraints.value).ca
        may_sign = usage is not None and _has_usage(usage.value, _KEY_CERT_SIGN)
    except ValueError as exc:
        raise ChainError(f"{certificate.name}: CA flags cannot be read: {exc}", code="ca-flags-missing") from exc
    if not (is_ca and may_sign):
        raise ChainError(
            f"{certificate.name} may not issue certificates",
            code="ca-flags-missing",
            expected="basicConstraints CA:TRUE and keyUsage keyCertSign",
            got=f"CA:{is_ca}, keyCertSign:{may_sign}",
            clause="RFC 5280, section 4.2.1.3 and 4.2.1.9",
        )


def _has_usage(value: bytes, bit: int) -> bool:
    octets = asn1.decode_der(KeyUsageHolder, tlv(0x30, value)).bits.as_bytes()
    return bool(octets) and bool(octets[0] & 0x80 >> bit)


def _require_understood(certificate: Certificate) -> None:
    unknown = [e.oid for e in certificate.extensions if e.critical and e.oid not in _UNDERSTOOD_CRITICAL]
    if unknown:
        raise ChainError(
            f"{certificate.name} has a critical extension that is not understood",
            code="critical-extension-unknown",
            got=", ".join(unknown),
            clause="RFC 5280, section 4.2",
        )


def require_issued(
    certificate: Certificate, issuer: Issuer, *, algorithm: SignatureAlgorithm, check: str | None = None
) -> None:
    """Require that ``issuer`` issued ``certificate``: names byte by byte, the algorithm, the signature.

    Raises:
        ChainError: ``issuer-name-mismatch``, ``certificate-algorithm-unexpected``,
            ``certificate-signature-invalid``, ``critical-extension-unknown`` or ``public-key-invalid``.
    """
    _require_understood(certificate)
    if certificate.issuer != issuer.subject:
        raise ChainError(
            f"{certificate.name} names another issuer than {issuer.name}",
            code="issuer-name-mismatch",
            check=check,
            expected=issuer.name,
            got=certificate.issuer_common_name or "a name without one CN",
        )
    if algorithm_of(certificate.algorithm) is not algorithm:
        raise ChainError(
            f"{certificate.name} is signed with another algorithm than this vendor uses",
            code="certificate-algorithm-unexpected",
            check=check,
            expected=algorithm.value,
            got=certificate.algorithm.hex(),
        )
    if not signature_holds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki):
        raise ChainError(
            f"the signature of {issuer.name} on {certificate.name} does not verify",
            code="certificate-signature-invalid",
            check=check,
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )


def require_valid(certificate: Certificate, *, at: datetime, check: str | None = None) -> None:
    """Require ``not_before <= at <= not_after``.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.
    """
    if certificate.not_before <= at <= certificate.not_after:
        return
    early = at < certificate.not_before
    raise ChainError(
        f"{certificate.name} is {'not valid yet' if early else 'expired'} at {rfc3339_text(at)}",
        code="certificate-not-yet-valid" if early else "certificate-expired",
        check=check,
        expected=f"{rfc3339_text(certificate.not_before)} to {rfc3339_text(certificate.not_after)}",
        got=rfc3339_text(at),
        clause="RFC 5280, section 4.1.2.5",
    )


def require_current_crl(
    crls: tuple[Crl, ...], issuer: Issuer, *, serials: tuple[int, ...], at: datetime, check: str | None = None
) -> Crl:
    """Return a current, genuine list of the issuer, after checking that no genuine one contains a serial.

    A stale or future list counts as missing, but its entries are revoked once its signature
    verifies. Lists of other issuers are ignored.

    Args:
        crls: all available lists.
        issuer: of the lists.
        serials: numbers to look for.
        at: moment of appraisal; ``this_update <= at < next_update``.
        check: id of this check, for errors.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: ``crl-signature-invalid``, all lists in the issuer's name have other signers.
        EndorsementError: ``crl-missing``, ``crl-expired`` or ``crl-not-yet-valid``.
    """
    named = [crl for crl in crls if crl.issuer == issuer.subject]
    genuine = [crl for crl in named if crl.is_signed_by(issuer)]
    for crl in genuine:
        for serial in serials:
            if serial in crl.revoked:
                raise RevokedError(
                    f"{issuer.name} revoked the certificate with serial {serial}",
                    code="certificate-revoked",
                    check=check,
                    expected=f"serial {serial} not listed",
                    got=f"listed by the CRL of {rfc3339_text(crl.this_update)}",
                )
    current = [crl for crl in genuine if crl.is_current(at)]
    if current:
        return max(current, key=lambda crl: crl.this_update)
    raise _no_current_crl(named, genuine, issuer, at=at, check=check)


def _no_current_crl(
    named: list[Crl], genuine: list[Crl], issuer: Issuer, *, at: datetime, check: str | None
) -> ChainError | EndorsementError:
    if named and not genuine:
        return ChainError(
            f"the CRL in the name of {issuer.name} is not signed by it",
            code="crl-signature-invalid",
            check=check,
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )
    if not genuine:
        return EndorsementError(
            f"no certificate revocation list of {issuer.name} is at hand",
            code="crl-missing",
            check=check,
            expected=f"a CRL of {issuer.name} that is current at {rfc3339_text(at)}",
            got="none",
            hint="fetch it with 'attest endorsements fetch', or leave the check out with --unchecked revocation=REASON",
            retryable=True,
        )
    latest = max(genuine, key=lambda crl: crl.this_update)
    early = at < latest.this_update
    return EndorsementError(
        f"the CRL of {issuer.name} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code="crl-not-yet-valid" if early else "crl-expired",
        check=check,
        expected=f"thisUpdate <= {rfc3339_text(at)} < nextUpdate",
        got=f"{rfc3339_text(latest.this_update)} to {rfc3339_text(latest.next_update)}",
        hint="fetch a newer one with 'attest endorsements fetch'",
        retryable=True,
    )
