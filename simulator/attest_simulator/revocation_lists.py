"""Revocation lists of the software AMD, in AMD's own byte layout."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from attest.endorsements.x509 import Extension
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import der
from attest_simulator.certificates import authority_key_id, ca_name, pss_identifier, signed
from attest_simulator.keys import CaRole, SimulatedRsaKey, simulated_ca_key


@dataclass(frozen=True, slots=True, kw_only=True)
class CrlTemplate:
    """A revocation list without its signature.

    Attributes:
        issuer: DER Name of the ARK.
        authority_key: the authority key identifier.
        this_update: first moment at which it is current, included.
        next_update: end of its currency, excluded.
        revoked: serial numbers, in the list's order.
        number: CRL number.
        explicit_trailer: AMD's lists leave trailerField out.
    """

    issuer: bytes
    authority_key: Extension
    this_update: datetime
    next_update: datetime
    revoked: tuple[int, ...] = ()
    number: int = 1
    explicit_trailer: bool = False

    def to_be_signed(self) -> bytes:
        """Return the DER of ``tbsCertList``; an empty list of entries is left out (RFC 5280, section 5.1.2.6)."""
        entries = [der.sequence(der.integer(serial), der.time(self.this_update)) for serial in self.revoked]
        number = Extension(oid="2.5.29.20", critical=False, value=der.integer(self.number))
        return der.sequence(
            der.integer(1),
            pss_identifier(explicit_trailer=self.explicit_trailer),
            self.issuer,
            der.time(self.this_update),
            der.time(self.next_update),
            *([der.sequence(*entries)] if entries else []),
            der.context(0, der.sequence(der.extension(self.authority_key), der.extension(number))),
        )

    def issue(self, key: SimulatedRsaKey) -> bytes:
        """Return the DER of the list, signed by any of the simulated authorities."""
        return _issue_crl(self, key)


@lru_cache(maxsize=128)
def _issue_crl(template: CrlTemplate, key: SimulatedRsaKey) -> bytes:
    return signed(template.to_be_signed(), pss_identifier(explicit_trailer=template.explicit_trailer), key)


def crl_template(
    product: SnpProduct, *, this_update: datetime, next_update: datetime, revoked: tuple[int, ...] = ()
) -> CrlTemplate:
    """Return a revocation list of a simulated ARK, unsigned."""
    return CrlTemplate(
        issuer=ca_name(product, CaRole.ARK),
        authority_key=authority_key_id(simulated_ca_key(product, CaRole.ARK)),
        this_update=this_update,
        next_update=next_update,
        revoked=revoked,
    )


def simulated_crl(product: SnpProduct, *, at: datetime, revoked: tuple[int, ...] = ()) -> bytes:
    """Return the DER of the simulated ARK's list for the calendar year of ``at`` (UTC).

    Args:
        product: the product line.
        at: any moment of the year, aware.
        revoked: serial numbers of intermediates, such as 65537 for SEV-Milan.
    """
    year = at.astimezone(UTC).year
    template = crl_template(
        product,
        this_update=datetime(year, 1, 1, tzinfo=UTC),
        next_update=datetime(year + 1, 1, 1, tzinfo=UTC),
        revoked=revoked,
    )
    return template.issue(simulated_ca_key(product, CaRole.ARK))
