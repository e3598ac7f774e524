"""The endorsements that a verification rests on, by digest and time, so that an auditor can repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256

from attest.endorsements.ocsp_answers import OcspAnswer
from attest.endorsements.x509 import Certificate, Crl
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.results.ear_details import ReliedOn, TcbState
from attest.verification import VerifiedEvidence, VerifiedItem


def relied_on(verified: VerifiedEvidence) -> tuple[ReliedOn, ...]:
    """Return every endorsement of every item, none twice, in the order of the items."""
    found = (entry for item in verified.items for entry in _of_item(item))
    return tuple(dict.fromkeys(found))


def tcb_states(verified: VerifiedEvidence) -> tuple[TcbState, ...]:
    """Return the vendors' statements about the TCB of each platform; AMD and NVIDIA make none."""
    return tuple(
        TcbState(
            item=item.name,
            status=str(evaluation.tcb_status),
            date=seconds(evaluation.tcb_date),
            advisories=evaluation.advisory_ids,
        )
        for item in verified.items
        if isinstance(item.silicon, VerifiedIntelQuote) and (evaluation := item.silicon.evaluation) is not None
    )


def seconds(moment: datetime) -> int:
    """Return whole seconds since 1970."""
    return int(moment.timestamp())


def _of_item(item: VerifiedItem) -> Iterator[ReliedOn]:
    match item.silicon:
        case VerifiedSnpReport() as snp:
            yield _certificate(str(snp.leaf.kind).lower(), item, snp.leaf.certificate)
            yield _certificate("intermediate", item, snp.intermediate)
            if snp.crl is not None:
                yield _status(item, snp.crl)
        case VerifiedIntelQuote() as quote:
            yield from _of_intel(item, quote)
        case VerifiedGpu() as gpu:
            yield from _of_gpu(item, gpu)


def _of_intel(item: VerifiedItem, quote: VerifiedIntelQuote) -> Iterator[ReliedOn]:
    chain, collateral = quote.authentic.chain, quote.collateral
    yield _certificate("pck", item, chain.pck.certificate)
    yield _certificate("pck-ca", item, chain.issuer)
    if collateral.crls is not None:
        yield _status(item, collateral.crls.pck)
        yield _status(item, collateral.crls.root)
    for kind, document in (("tcb-info", collateral.tcb_info), ("qe-identity", collateral.qe_identity)):
        if document is not None:
            # Only the content of the document is kept; with its signer, number and dates it still identifies one.
            yield ReliedOn(
                kind=kind,
                item=item.name,
                begins=seconds(document.content.issue_date),
                ends=seconds(document.content.next_update),
                number=document.content.evaluation_data_number,
            )
            yield _certificate("tcb-signing", item, document.signing)


def _of_gpu(item: VerifiedItem, gpu: VerifiedGpu) -> Iterator[ReliedOn]:
    yield _certificate("device-leaf", item, gpu.chain.leaf.certificate)
    for certificate in (gpu.chain.device, *gpu.chain.issuers):
        yield _certificate("device-ca", item, certificate)
    for kind, rim in (("driver-rim", gpu.driver_rim), ("vbios-rim", gpu.vbios_rim)):
        if rim is not None:
            yield _entry(kind, item, rim.parsed.document.sha256, rim.not_before, rim.not_after)
    for status in (*gpu.device_statuses, *gpu.driver_statuses, *gpu.vbios_statuses):
        yield _status(item, status)


def _certificate(kind: str, item: VerifiedItem, certificate: Certificate) -> ReliedOn:
    return _entry(kind, item, sha256(certificate.der).digest(), certificate.not_before, certificate.not_after)


def _status(item: VerifiedItem, status: OcspAnswer | Crl) -> ReliedOn:
    kind = "crl" if isinstance(status, Crl) else "ocsp"
    return _entry(kind, item, sha256(status.der).digest(), status.this_update, status.next_update)


def _entry(kind: str, item: VerifiedItem, digest: bytes, begins: datetime, ends: datetime | None) -> ReliedOn:
    return ReliedOn(
        kind=kind,
        item=item.name,
        sha256=digest,
        begins=seconds(begins),
        ends=None if ends is None else seconds(ends),
    )
