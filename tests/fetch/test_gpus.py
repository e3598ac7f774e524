"""From the evidence of GPUs to their endorsements: RIMs first, then the status of everybody who signed."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle import build_bundle
from attest.endorsements.ocsp_answers import OcspStatus
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.errors import EndorsementError, EvidenceError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT, Evidence, EvidenceItem
from attest.evidence.gpu.evidence import ParsedGpuEvidence, parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.verify import VerifiedGpu, verify_gpu_evidence
from attest.fetch import (
    EndorsementCache,
    Gathered,
    OcspClient,
    RimServiceClient,
    can_be_fetched,
    gather_for_gpus,
)
from attest.fetch.answers import RIM_DAYS
from attest.fetch.gpus import REFETCH_AFTER
from attest_simulator.nvidia import Reason, SimulatedBoard, SimulatedGpu, SimulatedNvidiaService, SimulatedOcsp
from attest_simulator.nvidia.rims import RimTemplate, rim_answer
from tests.endorsements import made
from tests.fetch.conftest import AT, Answering, Reply, Server, simulated_responder, simulated_rims

pytestmark = pytest.mark.loopback

DAY = timedelta(days=1)
NONCE = bytes(range(32))
GPU = SimulatedGpu.of("gpu 0")
PARSED = parse_nvidia_device(GPU.device_item(NONCE))
SIMULATION = TrustAnchors.simulation()
STATUSES = 6
"""L4, L3 and L2 of the device, and those of both RIMs, which one signer signed."""


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path)


def verified(found: Gathered, parsed: ParsedGpuEvidence = PARSED) -> VerifiedGpu:
    return verify_gpu_evidence(parsed, endorsements=found.endorsements, anchors=SIMULATION, at=AT)


def codes(found: Gathered) -> list[str]:
    return [failure.code for failure in found.failures]


def test_what_a_gpu_needs_is_fetched_once_in_two_rounds_and_verifies_it(
    server: Server, rims: RimServiceClient, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    first = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache)
    assert first.failures == ()
    assert verified(first).simulated
    assert [path.partition("/v1/rim/")[0] for path in server.requests] == [""] * 2 + ["/"] * STATUSES
    assert [entry.kind for entry in first.entries] == ["nvidia-rim"] * 2 + ["nvidia-ocsp"] * STATUSES
    for offline in (False, True):
        again = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache, offline=offline)
        assert again.entries == first.entries
    assert len(server.requests) == 2 + STATUSES


def test_what_was_fetched_makes_a_bundle_that_verifies_it_offline(rims: RimServiceClient, ocsp: OcspClient) -> None:
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=None)
    whole = build_bundle(found.entries, created=AT, expires=AT + DAY).to_bytes()
    files = read_endorsements([("gpu.endorsements", whole)], at=AT)
    assert files.warnings == ()
    verify_gpu_evidence(PARSED, endorsements=files.endorsements, anchors=SIMULATION, at=AT)


def test_devices_of_one_machine_are_asked_for_together(
    server: Server, rims: RimServiceClient, ocsp: OcspClient
) -> None:
    devices = [parse_nvidia_device(item.value) for item in SimulatedBoard.of("board 0").items(NONCE)]
    found = gather_for_gpus(devices, rims=rims, ocsp=ocsp, at=AT, cache=None)
    assert found.failures == ()
    assert len({entry.data for entry in found.entries}) == len(found.entries) == len(server.requests)
    assert sum(path.startswith("/v1/rim/") for path in server.requests) == 3  # driver, VBIOS, BIOS
    for device in devices:
        verified(found, device)


def test_a_raw_report_needs_its_chain_from_elsewhere(server: Server, rims: RimServiceClient, ocsp: OcspClient) -> None:
    raw = parse_nvidia_report(GPU.report(NONCE))
    nothing = gather_for_gpus((raw,), rims=rims, ocsp=ocsp, at=AT, cache=None)
    assert (nothing.entries, nothing.failures, server.requests) == ((), (), [])
    pool = Endorsements(certificates=tuple(map(parse_certificate, GPU.certificates)))
    found = gather_for_gpus((raw,), rims=rims, ocsp=ocsp, pool=pool, at=AT, cache=None)
    assert len(found.entries) == 2 + STATUSES


def test_rims_at_hand_have_signers_too(server: Server, rims: RimServiceClient, ocsp: OcspClient) -> None:
    server.answering = lambda path, _: Reply(status=404)
    pool = Endorsements(rims=tuple(rim.document() for rim in GPU.rims(at=AT)))
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, pool=pool, at=AT, cache=None)
    assert codes(found) == ["rim-not-found"] * 2
    assert len(found.endorsements.ocsp) == STATUSES


def test_offline_what_is_missing_is_named(server: Server, rims: RimServiceClient, ocsp: OcspClient) -> None:
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=None, offline=True)
    assert codes(found) == ["endorsement-not-cached"] * 5  # two RIMs and the device's chain
    assert "RIM NV_GPU_DRIVER_GH100_" in found.failures[0].message
    assert "revocation status of" in found.failures[2].message
    assert server.requests == []


def test_a_responder_out_of_reach_does_not_hide_the_rims(
    server: Server, rims: RimServiceClient, ocsp: OcspClient
) -> None:
    server.answering_post = lambda _: Reply(status=429, headers=(("Retry-After", "3600"),))
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=None)
    assert (len(found.endorsements.rims), codes(found)) == (2, ["ocsp-throttled"] * STATUSES)
    assert len(server.bodies) == 1
    with pytest.raises(EndorsementError) as raised:
        verified(found)
    assert raised.value.code == "ocsp-missing"


def test_a_revoked_certificate_is_handed_on_as_such(server: Server, rims: RimServiceClient, ocsp: OcspClient) -> None:
    _, serial = GPU.questions(at=AT)[0]
    revoked = SimulatedOcsp.of(AT, revoked={serial: Reason.HOLD})
    server.answering_post = simulated_responder(SimulatedNvidiaService.of(AT, ocsp=revoked))
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=None)
    assert [answer.status for answer in found.endorsements.ocsp if answer.serial == serial] == [OcspStatus.REVOKED]


# -- RIMs that no longer fit


def reissued(rim: RimTemplate) -> RimTemplate:
    """Return the same id with other reference values."""
    return replace(rim, values={**rim.values, max(rim.values): (b"\xff" * 48,)})


def serving(*templates: RimTemplate) -> Answering:
    by_path = {f"/v1/rim/{rim.id}": rim_answer(rim) for rim in templates}
    return lambda path, _: Reply(body=by_path[path])


def test_a_cached_rim_with_other_reference_values_is_fetched_again_after_a_while(
    server: Server, rims: RimServiceClient, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    driver, vbios = GPU.rims(at=AT)
    server.answering = serving(driver, reissued(vbios))
    before = AT - REFETCH_AFTER
    assert gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=before, cache=cache).failures == ()
    server.answering = simulated_rims()
    server.requests.clear()
    told: list[str] = []
    early = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT - timedelta(seconds=1), cache=cache)
    assert (len(early.endorsements.rims), server.requests) == (2, [])
    offline = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache, offline=True)
    assert (len(offline.endorsements.rims), offline.failures, server.requests) == (2, (), [])
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache, progress=told.append)
    assert server.requests == [f"/v1/rim/{vbios.id}"]
    assert told[0] == f"the RIM {vbios.id} in the cache no longer matches"
    verified(found)


def test_a_cached_rim_whose_signature_does_not_hold_is_fetched_again(
    server: Server, rims: RimServiceClient, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    driver, vbios = GPU.rims(at=AT)
    whole = json.loads(rim_answer(driver))
    server.answering = serving(replace(driver, key=made.OTHER_KEY), vbios)
    gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT - REFETCH_AFTER, cache=cache)
    server.answering = simulated_rims()
    server.requests.clear()
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache)
    assert server.requests == [f"/v1/rim/{driver.id}"]
    assert whole["sha256"] in {rim.sha256.hex() for rim in found.endorsements.rims}
    verified(found)


def test_where_no_newer_rim_can_be_had_the_one_that_is_kept_is_handed_on(
    server: Server, rims: RimServiceClient, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    driver, vbios = GPU.rims(at=AT)
    server.answering = serving(driver, reissued(vbios))
    gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT - REFETCH_AFTER, cache=cache)
    server.answering = lambda path, _: Reply(status=404)
    found = gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache)
    assert (len(found.endorsements.rims), codes(found)) == (2, ["rim-not-found"])


def test_rims_are_asked_for_again_after_some_days(
    server: Server, rims: RimServiceClient, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT, cache=cache)
    server.requests.clear()
    gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT + RIM_DAYS, cache=cache)
    assert sum(path.startswith("/v1/rim/") for path in server.requests) == 2


# -- evidence


@pytest.mark.parametrize("media_type", [MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT])
def test_evidence_of_a_gpu_has_a_vendor_that_can_be_asked(media_type: str) -> None:
    assert can_be_fetched(Evidence(items=(EvidenceItem(name="gpu", media_type=media_type, value=b""),)))


def test_recorded_reports_name_rims_and_certificates(
    vectors_dir: Path, server: Server, rims: RimServiceClient, ocsp: OcspClient
) -> None:
    folder = vectors_dir / "nvidia" / "gh100-550.90.07"
    server.answering = lambda path, _: Reply(status=404)
    server.answering_post = lambda _: Reply(status=404)
    report = parse_nvidia_report(bytes.fromhex((folder / "report.hex").read_text("ascii")))
    chain = read_endorsements([("chain", (folder / "chain.pem").read_bytes())], at=AT).endorsements
    found = gather_for_gpus((report,), rims=rims, ocsp=ocsp, pool=chain, at=AT, cache=None)
    assert codes(found) == ["rim-not-found"] * 2 + ["ocsp-not-found"] * 3
    assert "/v1/rim/NV_GPU_DRIVER_GH100_550.90.07" in server.requests


def test_a_device_that_cannot_be_read_is_malformed(rims: RimServiceClient, ocsp: OcspClient) -> None:
    with pytest.raises(EvidenceError):
        gather_for_gpus((parse_nvidia_device(b"{}"),), rims=rims, ocsp=ocsp, at=AT, cache=None)


def test_the_moment_needs_a_time_zone(rims: RimServiceClient, ocsp: OcspClient) -> None:
    with pytest.raises(ValueError, match="time zone"):
        gather_for_gpus((PARSED,), rims=rims, ocsp=ocsp, at=AT.replace(tzinfo=None), cache=None)
