"""Entries of a bundle as the simulated vendors give them, for tests of the mirror."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.intel_answers import intel_answer_bytes
from attest.endorsements.requests import (
    AmdChainRequest,
    AmdCrlRequest,
    AmdVcekRequest,
    EndorsementRequest,
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
    NvidiaRimRequest,
)
from attest.evidence.intel.collateral_forms import hex_text_of
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.needs import needed_endorsements
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import FetchClocks, KdsClient, PcsClient
from attest.fetch.answers import read_answer
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.intel import SimulatedPcs, SimulatedPlatform
from attest_simulator.kds import SimulatedKds
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvidiaService

PLATFORM = SimulatedPlatform.of()
TIMING = FetchClocks(now=lambda: datetime(2026, 6, 1, tzinfo=UTC))
CHIPS = tuple(SimulatedChip.of(product) for product in SnpProduct)
REPORTS = tuple(SimulatedGuest(chip=chip).report(bytes(64)) for chip in CHIPS)
VCEKS = tuple(
    one
    for report in REPORTS
    for one in needed_endorsements(parse_snp_evidence(report))
    if isinstance(one, AmdVcekRequest)
)
AMD: tuple[EndorsementRequest, ...] = (
    *VCEKS,
    *(AmdChainRequest(product=str(product), kind="vcek") for product in SnpProduct),
    AmdChainRequest(product="Genoa", kind="vlek"),
    *(AmdCrlRequest(product=str(product), kind="vcek") for product in SnpProduct),
)
INTEL: tuple[EndorsementRequest, ...] = (
    IntelTcbInfoRequest(tee="tdx", fmspc=PLATFORM.sgx.fmspc),
    IntelTcbInfoRequest(tee="sgx", fmspc=PLATFORM.sgx.fmspc),
    IntelQeIdentityRequest(tee="tdx"),
    IntelQeIdentityRequest(tee="sgx"),
    IntelPckCrlRequest(ca="platform"),
    IntelPckCrlRequest(ca="processor"),
    IntelRootCrlRequest(),
)


def kds_answer(request: EndorsementRequest, at: datetime) -> bytes:
    """Return the answer of AMD's service."""
    service = SimulatedKds(this_update=at, next_update=at.replace(year=at.year + 1))
    url = urlsplit(KdsClient(timing=TIMING).url_of(request))
    return service.answer(url.path, url.query).body


def pcs_answer(request: EndorsementRequest, at: datetime) -> bytes:
    """Return the answer of Intel's service with its issuer chain."""
    url = urlsplit(PcsClient(timing=TIMING, base_url="https://pccs.example").url_of(request))
    answer = SimulatedPcs.of(PLATFORM, at=at, pccs=True).answer(url.path, url.query)
    chain = next((value for name, value in answer.headers.items() if name.lower().endswith("issuer-chain")), "")
    body = hex_text_of(answer.body) or answer.body
    return intel_answer_bytes(body, issuer_chain=unquote(chain).encode())


def amd_entries(at: datetime, requests: Sequence[EndorsementRequest] = AMD) -> list[BundleEntry]:
    """Return AMD's answers as entries of a bundle."""
    return [read_answer(one, kds_answer(one, at), source="https://kds.example").entry() for one in requests]


def intel_entries(at: datetime, requests: Sequence[EndorsementRequest] = INTEL) -> list[BundleEntry]:
    """Return Intel's answers as entries of a bundle."""
    return [read_answer(one, pcs_answer(one, at), source="https://pcs.example").entry() for one in requests]


def rim_entries(at: datetime) -> list[BundleEntry]:
    """Return the RIMs of a GPU as entries of a bundle."""
    service = SimulatedNvidiaService.of(at)
    return [read_answer(one, service.get(one), source="https://rim.example").entry() for one in rim_requests(at)]


def rim_requests(at: datetime) -> list[EndorsementRequest]:
    """Return what names the RIMs of a GPU."""
    return [NvidiaRimRequest(id=rim.id) for rim in SimulatedGpu.of("gpu 0").rims(at=at)]


def all_entries(at: datetime) -> list[BundleEntry]:
    """Return everything of all vendors, OCSP answers included."""
    nvidia = SimulatedNvidiaService.of(at)
    statuses = [
        BundleEntry(kind="nvidia-ocsp", source="ocsp", data=nvidia.ocsp.template(issuer, serial).issue())
        for issuer, serial in SimulatedGpu.of("gpu 0").questions(at=at)
    ]
    return [
        *amd_entries(at),
        *intel_entries(at),
        *rim_entries(at),
        *statuses,
    ]
