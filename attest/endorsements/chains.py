"""Rules common to every vendor's chain: issuing, validity and revocation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from cryptography.hazmat import asn1

from attest.encoding import rfc3339_text
from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors
from attest.endorsements.asn1 import BasicConstraints, KeyUsageHolder, tlv
from attest.endorsements.signatures import SignatureAlgorithm, algorithm_of, signature_holds
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import ChainError, EndorsementError, RevokedError

UNPINNED_HINT = "a root counts only when its key is pinned; see docs/trust-anchors.md"
_REMEMBERED = 1024
_BASIC_CONSTRAINTS = "2.5.29.19"
KEY_USAGE = "2.5.29.15"
UNDERSTOOD_CRITICAL = frozenset({_BASIC_CONSTRAINTS, KEY_USAGE})
_KEY_CERT_SIGN = 5
_THIS_UPDATE = attrgetter("this_update")


@lru_cache(maxsize=_REMEMBERED)
def require_ca(certificate: Certificate) -> None:
    """Require a CA certificate: CA:TRUE and keyCertSign, without unknown critical extensions.

    NOTE: pathLenConstraint is not compared; each vendor's procedure fixes the length of its chain.

    Raises:
        ChainError: ``ca-flags-missing`` or ``critical-extension-unknown``.
    """
    require_understood(certificate)
    is_ca, may_sign = _ca_flags(certificate)
    if not (is_ca and may_sign):
        raise ChainError(
            f"{certificate.name} may not issue certificates",
            code="ca-flags-missing",
            expected="basicConstraints CA:TRUE and keyUsage keyCertSign",
            got=f"CA:{is_ca}, keyCertSign:{may_sign}",
            clause="RFC 5280, section 4.2.1.3 and 4.2.1.9",
        )


def _ca_flags(certificate: Certificate) -> tuple[bool, bool]:
    constraints, usage = certificate.extension(_BASIC_CONSTRAINTS), certificate.extension(KEY_USAGE)
    try:
        is_ca = constraints is not None and asn1.decode_der(BasicConstraints, constraints.value).ca
        return is_ca, usage is not None and has_usage(usage.value, _KEY_CERT_SIGN)
    except ValueError as exc:
        raise ChainError(f"{certificate.name}: CA flags cannot be read: {exc}", code="ca-flags-missing") from exc


def has_usage(value: bytes, bit: int) -> bool:
    """Return True if a keyUsage, the content of its OCTET STRING, has this bit.

    Raises:
        ValueError: it cannot be decoded.
    """
    octets = asn1.decode_der(KeyUsageHolder, tlv(0x30, value)).bits.as_bytes()
    return bool(octets) and bool(octets[0] & 0x80 >> bit)


@lru_cache(maxsize=_REMEMBERED)
def require_understood(certificate: Certificate) -> None:
    """Require a certificate without critical extensions that are not understood.

    Raises:
        ChainError: ``critical-extension-unknown``.
    """
    unknown = [e.oid for e in certificate.extensions if e.critical and e.oid not in UNDERSTOOD_CRITICAL]
    if unknown:
        raise ChainError(
            f"{certificate.name} has a critical extension that is not understood",
            code="critical-extension-unknown",
            got=", ".join(unknown),
            clause="RFC 5280, section 4.2",
        )


def require_issued(certificate: Certificate, issuer: Issuer, *, algorithm: SignatureAlgorithm) -> None:
    """Require that ``issuer`` issued ``certificate``: names byte by byte, the algorithm, the signature.

    Raises:
        ChainError: ``issuer-name-mismatch``, ``certificate-algorithm-unexpected``,
            ``certificate-signature-invalid``, ``critical-extension-unknown`` or ``public-key-invalid``.
    """
    require_understood(certificate)
    if certificate.issuer != issuer.subject:
        raise ChainError(
            f"{certificate.name} names another issuer than {issuer.name}",
            code="issuer-name-mismatch",
            expected=issuer.name,
            got=certificate.issuer_common_name or "a name without one CN",
        )
    if algorithm_of(certificate.algorithm) is not algorithm:
        raise ChainError(
            f"{certificate.name} is signed with another algorithm than this vendor uses",
            code="certificate-algorithm-unexpected",
            expected=algorithm.value,
            got=certificate.algorithm.hex(),
        )
    if not signature_holds(certificate.tbs, certificate.signature, certificate.algorithm, issuer.spki):
        raise ChainError(
            f"the signature of {issuer.name} on {certificate.name} does not verify",
            code="certificate-signature-invalid",
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )


def require_valid(certificate: Certificate, *, at: datetime) -> None:
    """Require ``not_before <= at <= not_after``.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.
    """
    if not certificate.not_before <= at <= certificate.not_after:
        raise _out_of_dates(certificate.name, certificate.not_before, certificate.not_after, at=at)


def require_anchor_valid(anchor: Anchor, *, at: datetime) -> None:
    """Require a root that is held as a bare key to be within its dates; both bounds are included.

    One that is held by its digest alone was judged by its certificate.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.
    """
    if anchor.not_before is None or anchor.not_after is None or anchor.not_before <= at <= anchor.not_after:
        return
    raise _out_of_dates(anchor.name, anchor.not_before, anchor.not_after, at=at)


def _out_of_dates(name: str, not_before: datetime, not_after: datetime, *, at: datetime) -> ChainError:
    early = at < not_before
    return ChainError(
        f"{name} is {'not valid yet' if early else 'expired'} at {rfc3339_text(at)}",
        code="certificate-not-yet-valid" if early else "certificate-expired",
        expected=f"{rfc3339_text(not_before)} to {rfc3339_text(not_after)}",
        got=rfc3339_text(at),
        clause="RFC 5280, section 4.1.2.5",
    )


class PinnedRoot(NamedTuple):
    """A root that an anchor pins, as a potential signer.

    Attributes:
        certificate: its certificate, if one was presented; None for a key that is held.
    """

    anchor: Anchor
    issuer: Issuer
    certificate: Certificate | None


def pinned_roots(
    child: Certificate, presented: tuple[Certificate, ...], anchors: TrustAnchors, *, role: AnchorRole
) -> Iterator[PinnedRoot]:
    """Yield pinned roots in the name of the child's issuer: keys that are held, then presented certificates."""
    for anchor in anchors.anchors:
        if anchor.role == role and anchor.subject == child.issuer and (issuer := anchor.held_issuer()) is not None:
            yield PinnedRoot(anchor, issuer, None)
    for certificate in presented:
        pinned = anchors.pinned(certificate.spki_sha256, role=role)
        if pinned is not None:
            yield PinnedRoot(pinned, certificate.as_issuer(), certificate)


def untrusted_root(
    name: str, presented: tuple[Certificate, ...], *, role: AnchorRole, expected: str, clause: str | None = None
) -> ChainError:
    """Return the error for a root that is not pinned, with the key of the first certificate that was presented.

    The code is ``simulated-root-refused`` for a root of the simulator, else ``root-not-trusted``.
    """
    simulation = TrustAnchors.simulation()
    simulated = any(simulation.pinned(certificate.spki_sha256, role=role) for certificate in presented)
    return ChainError(
        f"the root {name} is {'a SIMULATION root' if simulated else 'not an anchor of this Verifier'}",
        code="simulated-root-refused" if simulated else "root-not-trusted",
        expected=expected,
        got=f"SHA-256 of the public key {presented[0].spki_sha256.hex()}" if presented else "a name that no anchor has",
        clause=clause,
        hint="simulated evidence proves nothing about hardware; to try it, add --allow-simulated"
        if simulated
        else UNPINNED_HINT,
    )


# -- revocation lists


def require_current_crl(crls: tuple[Crl, ...], issuer: Issuer, *, serials: tuple[int, ...], at: datetime) -> Crl:
    """Return a current, genuine list of the issuer, after checking that no genuine one contains a serial.

    A stale or future list counts as missing, but its entries are revoked once its signature verifies.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: as ``find_current_crl``.
        EndorsementError: as ``find_current_crl``.
    """
    for serial in serials:
        require_not_listed(crls, issuer, serial)
    return find_current_crl(crls, issuer, at=at)


def require_not_listed(crls: tuple[Crl, ...], issuer: Issuer, serial: int, *, name: str = "the certificate") -> None:
    """Require that no genuine list of the issuer contains a serial, whatever the dates of the list.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: ``public-key-invalid``, of the issuer.
    """
    for crl in crls:
        # The cheap comparison first: a list of another issuer may name the number of its own certificate.
        if serial in crl.revoked and crl.is_signed_by(issuer):
            raise RevokedError(
                f"{issuer.name} revoked {name} with serial {serial:x}",
                code="certificate-revoked",
                expected=f"serial {serial:x} not listed",
                got=f"listed by the CRL of {rfc3339_text(crl.this_update)}",
            )


def find_current_crl(crls: tuple[Crl, ...], issuer: Issuer, *, at: datetime, next_update_included: bool = False) -> Crl:
    """Return the newest list of the issuer that is genuine and current; lists of other issuers are ignored.

    Raises:
        ChainError: ``crl-signature-invalid``, all lists in the issuer's name have other signers.
        EndorsementError: ``crl-missing``, ``crl-expired`` or ``crl-not-yet-valid``.
    """
    named = [crl for crl in crls if crl.issuer == issuer.subject]
    genuine = [crl for crl in named if crl.is_signed_by(issuer)]
    current = [crl for crl in genuine if crl.is_current(at, next_update_included=next_update_included)]
    if current:
        return max(current, key=_THIS_UPDATE)
    if genuine:
        raise _not_current(genuine, issuer, at=at)
    if named:
        raise ChainError(
            f"the CRL in the name of {issuer.name} is not signed by it",
            code="crl-signature-invalid",
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
        )
    raise _no_crl(crls, issuer, at=at)


def _not_current(genuine: list[Crl], issuer: Issuer, *, at: datetime) -> EndorsementError:
    latest = max(genuine, key=_THIS_UPDATE)
    early = at < latest.this_update
    return EndorsementError(
        f"the CRL of {issuer.name} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code="crl-not-yet-valid" if early else "crl-expired",
        expected=f"a CRL that is current at {rfc3339_text(at)}",
        got=f"{rfc3339_text(latest.this_update)} to {rfc3339_text(latest.next_update)}",
        hint="fetch a newer one with 'attest endorsements fetch'",
        retryable=True,
    )


def _no_crl(crls: tuple[Crl, ...], issuer: Issuer, *, at: datetime) -> EndorsementError:
    others = sorted({crl.issuer_common_name or "a name without one CN" for crl in crls})
    return EndorsementError(
        f"no certificate revocation list of {issuer.name} is available",
        code="crl-missing",
        expected=f"a CRL of {issuer.name} that is current at {rfc3339_text(at)}",
        got=f"lists of {', '.join(others)}" if others else "none",
        hint="give it with --endorsements PATH, fetch it with 'attest endorsements fetch', "
        "or skip the check with --unchecked revocation=REASON",
        retryable=True,
    )
