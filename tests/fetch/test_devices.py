"""From a quote to its endorsements: cache, service, and verification with what came of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from urllib.parse import quote as percent_encoded

import pytest

from attest import verify
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle import build_bundle, verify_bundle
from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.bundle_records import UnsignedBundles
from attest.endorsements.requests import IntelRootCrlRequest
from attest.errors import EndorsementError, EvidenceError, RevokedError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import (
    MEDIA_AZURE_CVM,
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_DEVICE,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.intel.needs import needed_endorsements
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.snp.tcb import SnpProduct
from attest.fetch import (
    EndorsementCache,
    Gathered,
    KdsClient,
    OcspClient,
    PcsClient,
    PcsUpdate,
    RimServiceClient,
    VendorServices,
    can_be_fetched,
    gather_endorsements,
    gather_for_evidence,
    gather_for_quote,
)
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.intel import (
    IntelAuthority,
    Period,
    SimulatedEnclave,
    SimulatedPcs,
    SimulatedPlatform,
    SimulatedTd,
)
from attest_simulator.nvidia import SimulatedGpu
from tests.evidence.azure.made import AzureVm
from tests.evidence.intel.recorded import RECORDED, Recorded
from tests.evidence.providers import made
from tests.fetch.conftest import (
    AT,
    PLATFORM,
    Answering,
    Dice,
    Reply,
    Server,
    Watch,
    simulated,
    simulated_pcs,
    simulated_rims,
)

pytestmark = pytest.mark.loopback

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
TD = SimulatedTd(platform=PLATFORM)
QUOTE = parse_quote(TD.quote(bytes(64)))
NEEDED = needed_endorsements(QUOTE)
SIMULATION = TrustAnchors.simulation()
UPDATES: tuple[PcsUpdate, ...] = ("standard", "early")
PCS = SimulatedPcs.of(PLATFORM, at=AT, pccs=True)
ENDS = PCS.crl_period.end
"""Last moment of TCB info, QE identity and the list of the Platform CA."""


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path)


def verified(found: Gathered, *, at: datetime = AT) -> VerifiedIntelQuote:
    return verify_intel_quote(QUOTE, endorsements=found.endorsements, anchors=SIMULATION, at=at)


def codes(found: Gathered) -> list[str]:
    return [failure.code for failure in found.failures]


# -- service and cache


def test_what_a_quote_needs_is_fetched_once_and_verifies_it(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    first = gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    assert first.failures == ()
    assert verified(first).simulated
    assert len(server.requests) == 4
    assert gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache).entries == first.entries
    assert gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache, offline=True).entries == first.entries
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("at", "asked"), [(AT, 0), (ENDS, 0), (ENDS + SECOND, 3), (PCS.root_crl_period.end + SECOND, 4)]
)
def test_mc_9_everything_is_kept_up_to_its_next_update(
    server: Server, pcs: PcsClient, cache: EndorsementCache, at: datetime, asked: int
) -> None:
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    server.requests.clear()
    gather_for_quote(QUOTE, at=at, source=pcs, cache=cache)
    assert len(server.requests) == asked


def test_a_damaged_record_is_fetched_again(server: Server, pcs: PcsClient, cache: EndorsementCache) -> None:
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    for path in cache.directory.rglob("*.cbor"):
        path.write_bytes(path.read_bytes()[:-9])
    assert gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache).failures == ()
    assert len(server.requests) == 8


def test_the_early_evaluation_has_answers_of_its_own(server: Server, watch: Watch, cache: EndorsementCache) -> None:
    old = tuple(replace(info, evaluation_data_number=info.evaluation_data_number - 1) for info in PCS.tcb_infos)
    server.answering = simulated_pcs(
        replace(PCS, tcb_infos=(*old, *PCS.tcb_infos), standard_number=old[0].evaluation_data_number)
    )
    numbers = []
    for update in UPDATES:
        with PcsClient(timing=watch.timing(), base_url=server.url, update=update, trust_env=False) as client:
            found = gather_endorsements(NEEDED[:1], at=AT, source=client, cache=cache)
        numbers.append(json.loads(found.endorsements.documents[0].body)["tcbEvaluationDataNumber"])
    assert numbers[1] == numbers[0] + 1


# -- offline


def test_offline_nothing_is_sent_and_what_is_missing_is_named(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    found = gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache, offline=True)
    assert codes(found) == ["endorsement-not-cached"] * 4
    assert "TCB info of TDX, FMSPC" in found.failures[0].message
    assert server.requests == []


def test_offline_what_is_out_of_date_is_left_to_verification(pcs: PcsClient, cache: EndorsementCache) -> None:
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    late = ENDS + DAY
    found = gather_for_quote(QUOTE, at=late, source=pcs, cache=cache, offline=True)
    assert found.failures == ()
    with pytest.raises(EndorsementError) as raised:
        verified(found, at=late)
    assert raised.value.code in {"crl-expired", "tcb-info-expired", "qe-identity-expired"}


# -- failures


def test_an_unknown_platform_does_not_hide_the_other_answers(pcs: PcsClient) -> None:
    stranger = SimulatedTd(platform=SimulatedPlatform.of(fmspc=bytes.fromhex("00906ed50000")))
    found = gather_for_quote(parse_quote(stranger.quote(bytes(64))), at=AT, source=pcs, cache=None)
    assert codes(found) == ["pcs-not-found"]
    assert [entry.kind for entry in found.entries] == ["intel-qe-identity", "intel-crl", "intel-crl"]


def test_a_busy_service_is_asked_once_in_a_call(server: Server, pcs: PcsClient) -> None:
    server.answering = lambda path, query: Reply(status=429, headers=(("Retry-After", "3600"),))
    assert codes(gather_for_quote(QUOTE, at=AT, source=pcs, cache=None)) == ["pcs-throttled"] * 4
    assert len(server.requests) == 1


def test_what_is_not_what_was_asked_for_is_neither_used_nor_kept(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    other = SimulatedPcs.of(SimulatedPlatform.of(fmspc=b"OTHER\0"), at=AT)
    wrong = simulated_pcs(other)("/tdx/certification/v4/tcb", f"fmspc={other.platforms[0].sgx.fmspc.hex()}")
    server.queue = [wrong, Reply(body=b"<html>welcome</html>"), Reply(body=b"{}"), Reply(body=b"garbage")]
    found = gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    assert codes(found) == ["pcs-answer-invalid"] * 4
    assert found.entries == ()
    assert len(gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache, offline=True).failures) == 4
    assert gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache).failures == ()


def test_mc_9_a_stale_document_of_the_service_is_refused_by_verification(server: Server, pcs: PcsClient) -> None:
    old = SimulatedPcs.of(PLATFORM, at=AT - 90 * DAY, pccs=True)
    server.answering = simulated_pcs(replace(PCS, tcb_infos=old.tcb_infos))
    found = gather_for_quote(QUOTE, at=AT, source=pcs, cache=None)
    assert found.failures == ()
    with pytest.raises(EndorsementError) as raised:
        verified(found)
    assert (raised.value.code, raised.value.retryable) == ("tcb-info-expired", True)


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_a_quote_without_its_chain_is_a_failure_and_nothing_is_sent(server: Server, pcs: PcsClient, kind: int) -> None:
    bare = replace(TD.quote_template(bytes(64)), certification_data=PLATFORM.certification_data(kind))
    quote = parse_quote(replace(bare, certification_type=kind).issue())
    assert codes(gather_for_quote(quote, at=AT, source=pcs, cache=None)) == ["pck-not-fetchable"]
    assert server.requests == []


def test_a_quote_whose_chain_cannot_be_read_is_malformed(server: Server, pcs: PcsClient) -> None:
    with pytest.raises(EvidenceError):
        gather_for_quote(replace(QUOTE, certification_data=b"garbage"), at=AT, source=pcs, cache=None)
    assert server.requests == []


def test_the_moment_needs_a_time_zone(pcs: PcsClient) -> None:
    with pytest.raises(ValueError, match="time zone"):
        gather_for_quote(QUOTE, at=AT.replace(tzinfo=None), source=pcs, cache=None)


# -- older and newer


def at_moment(at: datetime, *, revoked: tuple[int, ...] = ()) -> Answering:
    made = SimulatedPcs.of(PLATFORM, at=at, pccs=True)
    return simulated_pcs(replace(made, revoked={IntelAuthority.PLATFORM: revoked}))


def test_newer_answers_take_the_place_of_outdated_ones(server: Server, pcs: PcsClient, cache: EndorsementCache) -> None:
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    later = AT + 60 * DAY
    server.answering = at_moment(later)
    found = gather_for_quote(QUOTE, at=later, source=pcs, cache=cache)
    verified(found, at=later)
    assert len(found.endorsements.documents) == 2
    assert len(found.endorsements.crls) == 3  # what the older list of the CA revokes stays revoked
    verified(gather_for_quote(QUOTE, at=later, source=pcs, cache=cache, offline=True), at=later)


def test_mc_9_what_steps_back_is_handed_on_and_not_kept(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    kept = gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    server.answering = at_moment(AT - 90 * DAY)
    late = ENDS + DAY
    found = gather_for_quote(QUOTE, at=late, source=pcs, cache=cache)
    assert len(found.endorsements.documents) == 4
    assert gather_for_quote(QUOTE, at=late, source=pcs, cache=cache, offline=True).entries == kept.entries


def test_mc_9_what_an_outdated_list_revokes_stays_revoked(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    server.answering = at_moment(AT, revoked=(PLATFORM.pck_template().serial,))
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    later = AT + 60 * DAY
    server.answering = at_moment(later)
    found = gather_for_quote(QUOTE, at=later, source=pcs, cache=cache)
    with pytest.raises(RevokedError):
        verified(found, at=later)


def test_a_document_from_the_future_in_the_cache_does_not_stay_for_ever(
    server: Server, pcs: PcsClient, cache: EndorsementCache
) -> None:
    server.answering = at_moment(AT + 3000 * DAY)
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    server.answering = simulated_pcs()
    gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache)
    verified(gather_for_quote(QUOTE, at=AT, source=pcs, cache=cache, offline=True))


# -- bundles


def test_the_answers_make_a_bundle_that_verifies_the_quote_offline(pcs: PcsClient) -> None:
    found = gather_for_quote(QUOTE, at=AT, source=pcs, cache=None)
    whole = build_bundle(found.entries, created=AT, expires=AT + 7 * DAY).to_bytes()
    assert parse_bundle(whole).to_bytes() == whole
    bundle = verify_bundle(parse_bundle(whole), at=AT, keys=UnsignedBundles.ACCEPTED)
    assert bundle.entries == found.entries
    assert [e.kind for e in bundle.entries] == ["intel-tcb-info", "intel-qe-identity", "intel-crl", "intel-crl"]
    files = read_endorsements([("quote.endorsements", whole)], at=AT)
    assert files.warnings == ()
    verify_intel_quote(QUOTE, endorsements=files.endorsements, anchors=SIMULATION, at=AT)


# -- evidence


def item(media_type: str, value: bytes, name: str = "cpu") -> EvidenceItem:
    return EvidenceItem(name=name, media_type=media_type, value=value)


@pytest.fixture
def services(server: Server, watch: Watch) -> Iterator[VendorServices]:
    amd, intel, nvidia = simulated(), simulated_pcs(), simulated_rims()
    server.answering = lambda path, query: (
        intel if "/certification/" in path else nvidia if path.startswith("/v1/rim/") else amd
    )(path, query)
    with (
        KdsClient(timing=watch.timing(), base_url=server.url, trust_env=False) as kds,
        PcsClient(timing=watch.timing(), base_url=server.url, trust_env=False) as pcs,
        RimServiceClient(timing=watch.timing(), base_url=server.url, trust_env=False) as rims,
        OcspClient(timing=watch.timing(), random=Dice(), base_url=server.url, trust_env=False) as ocsp,
    ):
        yield VendorServices(amd=kds, intel=pcs, rims=rims, ocsp=ocsp)


REPORT = item(MEDIA_SNP_REPORT, SimulatedGuest(chip=SimulatedChip.of(SnpProduct.MILAN)).report(bytes(64)))
ENCLAVE = item(MEDIA_INTEL_QUOTE, SimulatedEnclave(platform=PLATFORM).quote(bytes(64)))
GPU = item(MEDIA_NVIDIA_DEVICE, SimulatedGpu.of("gpu 0").device_item(bytes(32)), name="gpu")


AZURE_SNP, AZURE_TDX = (item(MEDIA_AZURE_CVM, AzureVm(kind=kind).json) for kind in HclReportType)
CPUS = [(REPORT, 3), (item(MEDIA_INTEL_QUOTE, QUOTE.raw), 4), (ENCLAVE, 4), (AZURE_SNP, 3), (AZURE_TDX, 4)]


@pytest.mark.parametrize(("cpu", "requests"), CPUS)
def test_each_device_asks_the_service_of_its_vendor(
    server: Server, services: VendorServices, cpu: EvidenceItem, requests: int
) -> None:
    evidence = Evidence(items=(cpu,))
    assert can_be_fetched(evidence)
    found = gather_for_evidence(evidence, at=AT, services=services, cache=None)
    assert verify(evidence, endorsements=found.endorsements, anchors=SIMULATION, at=AT).simulated
    assert len(server.requests) == requests


def test_several_devices_get_everything_together_and_others_are_passed_over(
    server: Server, services: VendorServices
) -> None:
    other = item("application/x-unknown", b"?", name="other")
    assert not can_be_fetched(Evidence(items=(other,)))
    evidence = Evidence(items=(other, GPU, REPORT, replace(ENCLAVE, name="enclave")))
    found = gather_for_evidence(evidence, at=AT, services=services, cache=None)
    assert (len(found.entries), found.failures, len(server.requests)) == (15, (), 15)
    assert (len(found.endorsements.rims), len(found.endorsements.ocsp)) == (2, 6)
    nothing = gather_for_evidence(Evidence(items=(other,)), at=AT, services=services, cache=None)
    assert (nothing.entries, nothing.failures) == ((), ())


# -- the recorded quotes, with the recorded collateral behind a service


def recorded_service(collateral: dict[str, str], *, pccs: bool) -> Answering:
    """Answer with the pieces of a recorded set, as Intel's service or a PCCS sends them."""

    def document(name: str, member: str, header: str) -> Reply:
        body = f'{{"{member}":{collateral[name]},"signature":"{collateral[f"{name}_signature"]}"}}'
        chain = percent_encoded(collateral[f"{name}_issuer_chain"], safe="")
        return Reply(body=body.encode(), headers=((header, chain),))

    def answering(path: str, query: str) -> Reply:
        if path.endswith("/tcb"):
            if parse_qs(query)["fmspc"][0].lower() != json.loads(collateral["tcb_info"])["fmspc"].lower():
                return Reply(status=404)
            return document("tcb_info", "tcbInfo", "SGX-TCB-Info-Issuer-Chain" if pccs else "TCB-Info-Issuer-Chain")
        if path.endswith("/qe/identity"):
            return document("qe_identity", "enclaveIdentity", "SGX-Enclave-Identity-Issuer-Chain")
        if path.endswith("/pckcrl"):
            chain = percent_encoded(collateral["pck_crl_issuer_chain"], safe="")
            return Reply(body=bytes.fromhex(collateral["pck_crl"]), headers=(("SGX-PCK-CRL-Issuer-Chain", chain),))
        return Reply(body=collateral["root_ca_crl"].encode())

    return answering


EVALUATED = [
    (vector, evaluation)
    for vector in RECORDED
    for evaluation in vector.facts["evaluations"]
    if evaluation["expected"]["status"] != "TCB_NOT_SUPPORTED"
]


@pytest.mark.parametrize("pccs", [False, True], ids=["from Intel", "from a PCCS"])
@pytest.mark.parametrize(("vector", "evaluation"), EVALUATED, ids=lambda value: getattr(value, "id", ""))
def test_a_recorded_quote_is_verified_with_what_a_service_hands_out(
    vectors_dir: Path, server: Server, pcs: PcsClient, *, vector: Recorded, evaluation: dict[str, Any], pccs: bool
) -> None:
    quote = parse_quote(vector.read(vectors_dir))
    collateral = json.loads((vectors_dir / "collateral" / evaluation["collateral"]).read_bytes())
    server.answering = recorded_service(collateral, pccs=pccs)
    at = datetime.fromisoformat(evaluation["verify_time"])
    found = gather_for_quote(quote, at=at, source=pcs, cache=None)
    assert found.failures == ()
    genuine = verify_intel_quote(quote, endorsements=found.endorsements, anchors=TrustAnchors.vendors(), at=at)
    assert genuine.evaluation is not None
    assert genuine.evaluation.tcb_status == evaluation["expected"]["status"]


def test_a_period_ends_where_the_software_service_says() -> None:
    assert isinstance(PCS.crl_period, Period)
    assert PCS.crl_period.start <= AT <= ENDS < PCS.root_crl_period.end
    assert NEEDED[3] == IntelRootCrlRequest()


def test_a_document_of_a_service_gets_what_each_of_its_machines_needs(server: Server, services: VendorServices) -> None:
    second = SimulatedTd(platform=made.PLATFORM, mr_td=b"\7" * 48)
    evidence = made.evidence(made.gateway(made.machine(td=second, gpus=())))
    assert can_be_fetched(evidence)
    found = gather_for_evidence(evidence, at=AT, services=services, cache=None)
    assert verify(evidence, endorsements=found.endorsements, anchors=SIMULATION, at=AT).simulated
    assert server.requests
