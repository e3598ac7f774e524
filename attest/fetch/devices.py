"""Endorsements for whole evidence: each device's from its own vendor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import EndorsementError
from attest.evidence.azure.forms import AZURE_PARSERS
from attest.evidence.azure.needs import needy_report
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, Evidence, EvidenceItem
from attest.evidence.gpu.evidence import NVIDIA_PARSERS
from attest.evidence.intel.needs import needed_endorsements
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.providers.families import device_items, is_document
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch.client import FetchClocks
from attest.fetch.fetch_session import EndorsementSource, FetchOptions, Gathered
from attest.fetch.fetcher import gather_endorsements, gather_for, merged
from attest.fetch.gpus import gather_for_gpus
from attest.fetch.kds import KdsClient
from attest.fetch.ocsp import OcspClient, RandomBytes
from attest.fetch.pcs import PcsClient, PcsUpdate
from attest.fetch.rims import RimServiceClient
from attest.fetch.service import ApiKey

_NOTHING = Gathered(endorsements=NO_ENDORSEMENTS, entries=(), failures=())


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorServices:
    """Services of the vendors, such as ``KdsClient``, ``PcsClient``, ``RimServiceClient`` and ``OcspClient``."""

    amd: EndorsementSource
    intel: EndorsementSource
    rims: EndorsementSource
    ocsp: EndorsementSource


@contextmanager
def vendor_services(
    timing: FetchClocks,
    *,
    random: RandomBytes,
    kds: str | None = None,
    pcs: str | None = None,
    pcs_update: PcsUpdate = "standard",
    rims: str | None = None,
    ocsp: str | None = None,
    service_key: ApiKey | None = None,
) -> Iterator[VendorServices]:
    """Open clients of all vendors' services, each at the vendor's own address or at the given one.

    Raises:
        ConfigurationError: ``…-url-invalid``.
    """
    with (
        KdsClient(timing=timing, base_url=kds) as amd,
        PcsClient(timing=timing, base_url=pcs, update=pcs_update) as intel,
        RimServiceClient(timing=timing, base_url=rims, service_key=service_key) as manifests,
        OcspClient(timing=timing, random=random, base_url=ocsp, service_key=service_key) as responder,
    ):
        yield VendorServices(amd=amd, intel=intel, rims=manifests, ocsp=responder)


def can_be_fetched(evidence: Evidence) -> bool:
    """Return whether any device in the evidence has a vendor with a service."""
    return is_document(evidence) or any(
        item.essence in (*SNP_PARSERS, *NVIDIA_PARSERS, *AZURE_PARSERS, MEDIA_INTEL_QUOTE) for item in evidence.items
    )


def gather_for_evidence(
    evidence: Evidence,
    *,
    services: VendorServices,
    product: SnpProduct | None = None,
    pool: Endorsements = NO_ENDORSEMENTS,
    **asking: Unpack[FetchOptions],
) -> Gathered:
    """Gather the endorsements that evidence needs and does not contain.

    Items of other kinds are ignored. ``product`` is the product line of a SEV-SNP report of version 2; ``pool`` has the
    available endorsements, possibly with the chain of a GPU's raw report.

    Raises:
        EvidenceError: an item is malformed.
        ChainError: as ``gather_for_quote``.
        ConfigurationError: ``endorsement-cache-unusable``, ``network-settings-invalid`` or ``rim-library-missing``.
        ValueError: ``at`` has no time zone.
    """
    gathered = _NOTHING
    items = device_items(evidence)
    for item in items:
        report = _cpu_report(item)
        if report is None:
            continue
        if isinstance(report, ParsedSnpEvidence):
            found = gather_for(report, source=services.amd, product=product, **asking)
        else:
            found = gather_for_quote(report, source=services.intel, **asking)
        gathered = merged(gathered, found)
    gpus = [NVIDIA_PARSERS[item.essence](item.value) for item in items if item.essence in NVIDIA_PARSERS]
    if not gpus:
        return gathered
    return merged(gathered, gather_for_gpus(gpus, rims=services.rims, ocsp=services.ocsp, pool=pool, **asking))


def _cpu_report(item: EvidenceItem) -> ParsedSnpEvidence | ParsedQuote | None:
    """Return the CPU's item, alone or in the evidence of an Azure VM; None for another item."""
    if (parse := SNP_PARSERS.get(item.essence)) is not None:
        return parse(item.value)
    if item.essence == MEDIA_INTEL_QUOTE:
        return parse_quote(item.value)
    if (parse_azure := AZURE_PARSERS.get(item.essence)) is not None:
        return needy_report(parse_azure(item.value))
    return None


def gather_for_quote(quote: ParsedQuote, *, source: EndorsementSource, **asking: Unpack[FetchOptions]) -> Gathered:
    """Gather the endorsements of a TDX or SGX quote; arguments as for ``gather_for_evidence``.

    Raises:
        EvidenceError: ``certificate-malformed``, ``base64-invalid`` or ``pck-malformed``.
        ChainError: ``pck-name-unexpected``.
        ConfigurationError: ``endorsement-cache-unusable`` or ``network-settings-invalid``.
        ValueError: ``at`` has no time zone.
    """
    try:
        requests = needed_endorsements(quote)
    except EndorsementError as exc:  # no service has the needs of this quote
        return Gathered(endorsements=NO_ENDORSEMENTS, entries=(), failures=(exc,))
    return gather_endorsements(requests, source=source, **asking)
