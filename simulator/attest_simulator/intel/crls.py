"""Revocation lists of the software Intel: of the root, of the Platform CA and of the Processor CA.

Spec: RFC 5280, section 5; specs/intel-tdx-sgx.md, section 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.intel.certificates import (
    ECDSA_SHA256,
    authority_key_id,
    issue_signed,
    simulated_name,
)
from attest_simulator.intel.keys import IntelAuthority, authority_key

_KEY_COMPROMISE = b"\x0a\x01\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelCrlTemplate:
    """A revocation list without its signature.

    Attributes:
        issuer: DER Name of the CA.
        authority_key: the authority key identifier.
        this_update: start of its currency.
        next_update: end of its currency.
        revoked: serial numbers in the list's order, each revoked at ``this_update`` for
            keyCompromise, as in Intel's lists.
        number: CRL number; 1 in all of Intel's lists.
    """

    issuer: bytes
    authority_key: Extension
    this_update: datetime
    next_update: datetime
    revoked: tuple[int, ...] = ()
    number: int = 1

    def to_be_signed(self) -> bytes:
        """Return the DER of ``tbsCertList``; an empty list of entries is left out (RFC 5280, section 5.1.2.6)."""
        reason = der.sequence(der.extension(Extension(oid="2.5.29.21", critical=False, value=_KEY_COMPROMISE)))
        entries = [der.sequence(der.integer(serial), der.time(self.this_update), reason) for serial in self.revoked]
        number = Extension(oid="2.5.29.20", critical=False, value=der.integer(self.number))
        return der.sequence(
            der.integer(1),
            ECDSA_SHA256,
            self.issuer,
            der.time(self.this_update),
            der.time(self.next_update),
            *([der.sequence(*entries)] if entries else []),
            der.context(0, der.sequence(der.extension(number), der.extension(self.authority_key))),
        )

    def issue(self, authority: IntelAuthority | ec.EllipticCurvePrivateKey) -> bytes:
        """Return the DER of the list, signed by a simulated authority or by any P-256 key."""
        key = authority_key(authority) if isinstance(authority, IntelAuthority) else authority
        return issue_signed(self.to_be_signed(), key)


def intel_crl_template(
    ca: IntelAuthority, *, this_update: datetime, next_update: datetime, revoked: tuple[int, ...] = ()
) -> IntelCrlTemplate:
    """Return an unsigned revocation list of the root, the Platform or the Processor CA."""
    return IntelCrlTemplate(
        issuer=simulated_name(ca),
        authority_key=authority_key_id(ca),
        this_update=this_update,
        next_update=next_update,
        revoked=revoked,
    )


def simulated_intel_crl(
    ca: IntelAuthority, *, this_update: datetime, next_update: datetime, revoked: tuple[int, ...] = ()
) -> bytes:
    """Return the DER of a revocation list, signed by its own CA."""
    return intel_crl_template(ca, this_update=this_update, next_update=next_update, revoked=revoked).issue(ca)
