"""Endorsements that a report needs, by name. Another module fetches them."""

from __future__ import annotations

from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdKeyKind, AmdRequest, AmdVcekRequest
from attest.errors import EndorsementError
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.structure import ParsedSnpReport
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion, tcb_from_bytes

KDS_SPL_NAMES = {
    "fmc": "fmcSPL",
    "bootloader": "blSPL",
    "tee": "teeSPL",
    "snp": "snpSPL",
    "microcode": "ucodeSPL",
}


def vcek_request(*, product: SnpProduct, hwid: bytes, tcb: SnpTcbVersion) -> AmdVcekRequest:
    """Name the VCEK of a chip at a TCB."""
    return AmdVcekRequest(
        product=str(product),
        hwid=hwid[: product.hwid_bytes],
        spls=tuple((KDS_SPL_NAMES[name], level) for name, level in tcb.components().items()),
    )


def needed_endorsements(evidence: ParsedSnpEvidence, *, product: SnpProduct | None = None) -> tuple[AmdRequest, ...]:
    """List what verification of this evidence needs and the evidence does not carry.

    ``product`` names the product line for reports of version 2, which do not.

    Raises:
        EndorsementError: ``snp-product-needed`` (version 2 without a stated product line), or
            ``snp-vlek-not-fetchable`` / ``snp-chip-id-masked``: no public service has this certificate.
    """
    report = evidence.report
    line = report.product or product
    if line is None:
        raise EndorsementError(
            "a report of version 2 does not say its product line",
            code="snp-product-needed",
            hint="name it with --product Milan, Genoa or Turin",
        )
    kind: AmdKeyKind = "vlek" if report.signing_key == 1 else "vcek"
    leaf = () if evidence.leaves else (_leaf_request(report, line),)
    return (*leaf, AmdChainRequest(product=str(line), kind=kind), AmdCrlRequest(product=str(line), kind=kind))


def _leaf_request(report: ParsedSnpReport, product: SnpProduct) -> AmdVcekRequest:
    if report.signing_key == 1:
        raise EndorsementError(
            "the report is signed by a VLEK, which only the cloud provider issues",
            code="snp-vlek-not-fetchable",
            hint="use the one in the certificate table of the extended report",
        )
    if not any(report.chip_id):
        raise EndorsementError(
            "CHIP_ID is masked, so the VCEK cannot be fetched",
            code="snp-chip-id-masked",
            hint="use the one in the certificate table of the extended report",
        )
    tcb = tcb_from_bytes(report.reported_tcb, product, field="REPORTED_TCB")
    return vcek_request(product=product, hwid=report.chip_id, tcb=tcb)
