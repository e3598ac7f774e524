"""Intel's revocation lists: that of the PCK certificate's own CA, and that of the root.

Unlike the lists of other vendors, these are current up to and including nextUpdate (specs/intel-tdx-sgx.md, 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import rfc3339_text
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import ChainError, EndorsementError, RevokedError

CLAUSE = "intel-tdx-sgx.md 14, T07"
FETCH = "give Intel's collateral with --endorsements PATH, or fetch it with 'attest endorsements fetch'"
_FETCH_NEWER = "fetch newer collateral with 'attest endorsements fetch'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PckCrls:
    """The two current lists that a PCK certificate was looked up in.

    Attributes:
        pck: of the CA that issued it, Platform or Processor.
        root: of the Intel SGX Root CA.
    """

    pck: Crl
    root: Crl


def find_pck_crls(crls: tuple[Crl, ...], *, pck: Certificate, ca: Certificate, root: Issuer, at: datetime) -> PckCrls:
    """Return the current lists of both issuers, after making sure that none of theirs lists the chain.

    What any genuine list names is revoked, however old the list; only then are the dates judged.

    Args:
        crls: every list at hand.
        pck: the leaf, looked up in the lists of its CA.
        ca: PCK Platform or Processor CA, looked up in the lists of the root.
        root: name and key of the anchor that the chain reached.
        at: moment of appraisal; ``this_update <= at <= next_update``.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: ``crl-signature-invalid``, the only lists in an issuer's name are not signed by it.
        EndorsementError: ``crl-missing``, ``crl-expired`` or ``crl-not-yet-valid``.
    """
    issuer = ca.as_issuer()
    require_not_listed(crls, issuer, pck)
    require_not_listed(crls, root, ca)
    return PckCrls(pck=find_crl(crls, issuer, at=at), root=find_crl(crls, root, at=at))


def require_not_listed(crls: Iterable[Crl], issuer: Issuer, certificate: Certificate) -> None:
    """Require that no genuine list of the issuer names the certificate, whatever the dates of the list.

    Raises:
        RevokedError: ``certificate-revoked``.
        ChainError: ``public-key-invalid``, of the issuer.
    """
    for crl in crls:
        # The cheap question first: a list of another issuer may name the number of its own certificate.
        if certificate.serial in crl.revoked and crl.is_signed_by(issuer):
            raise RevokedError(
                f"{issuer.name} revoked {certificate.name} with serial {certificate.serial:x}",
                code="certificate-revoked",
                expected=f"serial {certificate.serial:x} not listed",
                got=f"listed by the CRL of {rfc3339_text(crl.this_update)}",
                clause=CLAUSE,
            )


def find_crl(crls: tuple[Crl, ...], issuer: Issuer, *, at: datetime) -> Crl:
    """Return the newest list of the issuer that is genuine and current.

    Raises:
        ChainError: ``crl-signature-invalid`` or ``public-key-invalid``.
        EndorsementError: ``crl-missing``, ``crl-expired`` or ``crl-not-yet-valid``.
    """
    named = [crl for crl in crls if crl.issuer == issuer.subject]
    genuine = [crl for crl in named if crl.is_signed_by(issuer)]
    current = [crl for crl in genuine if crl.this_update <= at <= crl.next_update]
    if current:
        return max(current, key=lambda crl: crl.this_update)
    if genuine:
        raise _not_current(genuine, issuer, at=at)
    if named:
        raise ChainError(
            f"the CRL in the name of {issuer.name} is not signed by it",
            code="crl-signature-invalid",
            expected=f"a signature by {issuer.name}",
            got="one that does not verify",
            clause=CLAUSE,
        )
    others = sorted({crl.issuer_common_name or "a name without one CN" for crl in crls})
    raise EndorsementError(
        f"no certificate revocation list of {issuer.name} is at hand",
        code="crl-missing",
        expected=f"a CRL of {issuer.name} that is current at {rfc3339_text(at)}",
        got=f"lists of {', '.join(others)}" if others else "none",
        clause=CLAUSE,
        hint=f"{FETCH}; or leave the check out with --unchecked revocation=REASON",
        retryable=True,
    )


def _not_current(genuine: list[Crl], issuer: Issuer, *, at: datetime) -> EndorsementError:
    latest = max(genuine, key=lambda crl: crl.this_update)
    early = at < latest.this_update
    return EndorsementError(
        f"the CRL of {issuer.name} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code="crl-not-yet-valid" if early else "crl-expired",
        expected=f"thisUpdate <= {rfc3339_text(at)} <= nextUpdate",
        got=f"{rfc3339_text(latest.this_update)} to {rfc3339_text(latest.next_update)}",
        clause=CLAUSE,
        hint=_FETCH_NEWER,
        retryable=True,
    )
