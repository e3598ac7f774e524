"""Endorsements that a quote needs, by name. Another module fetches them."""

from __future__ import annotations

from attest.endorsements.requests import (
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
)
from attest.errors import EndorsementError
from attest.evidence.intel.chain import embedded_certificates
from attest.evidence.intel.pck import read_pck
from attest.evidence.intel.quote import PCK_CHAIN, ParsedQuote


def needed_endorsements(quote: ParsedQuote) -> tuple[IntelRequest, ...]:
    """List what verification of this quote needs: a quote never contains any of it.

    FMSPC and CA are taken from the quote's own PCK certificate, its first. It need not be genuine: a forged
    one yields the endorsements of another platform.

    Raises:
        EvidenceError: ``certificate-malformed``, ``base64-invalid`` or ``pck-malformed``.
        ChainError: ``pck-name-unexpected``.
        EndorsementError: ``pck-not-fetchable``: with certification data 1 to 4 the quote has no PCK chain.

    Spec: specs/intel-tdx-sgx.md, sections 4, 8 and 17.
    """
    certificates = embedded_certificates(quote)
    if not certificates:
        raise EndorsementError(
            f"the quote has no PCK certificate chain (certification data {quote.certification_type}), "
            "so what it needs cannot be named",
            code="pck-not-fetchable",
            field="certification data",
            expected=f"type {PCK_CHAIN}, a PEM chain",
            got=f"type {quote.certification_type}",
            clause="Intel DCAP, QE certification data; Intel PCS, API version 4",
            hint="Intel issues PCK certificates to subscribers only: give the chain and the platform's collateral "
            "with --endorsements PATH",
        )
    pck = read_pck(certificates[0])
    return (
        IntelTcbInfoRequest(tee=quote.tee, fmspc=pck.fmspc),
        IntelQeIdentityRequest(tee=quote.tee),
        IntelPckCrlRequest(ca=pck.ca),
        IntelRootCrlRequest(),
    )
