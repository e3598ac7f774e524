"""From requests to endorsements: cache, service, and what happens when either fails or disagrees."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle import build_bundle, verify_bundle
from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.bundle_records import UnsignedBundles
from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, EndorsementRequest
from attest.endorsements.x509 import Certificate
from attest.errors import EndorsementError, RevokedError
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_snp_evidence
from attest.evidence.snp.needs import needed_endorsements, vcek_request
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.snp.verify import verify_snp_evidence
from attest.fetch import (
    EndorsementCache,
    Gathered,
    KdsClient,
    gather_endorsements,
    gather_for,
)
from attest_simulator.certificates import ca_template, simulated_chain
from attest_simulator.guest import SimulatedChip, SimulatedGuest
from attest_simulator.keys import CaRole, simulated_ca_key
from tests.endorsements.made import pem
from tests.fetch.conftest import AT, Reply, Server, Watch, simulated

pytestmark = pytest.mark.loopback

DAY = timedelta(days=1)
CHAIN = AmdChainRequest(product="Milan", kind="vcek")
CRL = AmdCrlRequest(product="Milan", kind="vcek")
ANCHORS = TrustAnchors.simulation()


def chip_of(product: SnpProduct = SnpProduct.MILAN, *, version: int = 5, **changed: object) -> SimulatedChip:
    return replace(SimulatedChip.of(product, report_version=version), **changed)  # type: ignore[arg-type]  # by the test


def evidence_of(chip: SimulatedChip, *, table: bytes = b"") -> ParsedSnpEvidence:
    return parse_snp_evidence(SimulatedGuest(chip=chip).report(bytes(64)) + table)


EVIDENCE = evidence_of(chip_of())
NEEDED = needed_endorsements(EVIDENCE)
VCEK = NEEDED[0]


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path)


Gather = Callable[..., Gathered]


@pytest.fixture
def gather(kds: KdsClient, cache: EndorsementCache) -> Gather:
    def gathering(requests: Iterable[EndorsementRequest] = NEEDED, **arguments: object) -> Gathered:
        return gather_endorsements(requests, **({"at": AT, "source": kds, "cache": cache} | arguments))  # type: ignore[arg-type]  # by the test

    return gathering


def names(certificates: Iterable[Certificate]) -> list[str]:
    return sorted(certificate.name for certificate in certificates)


# -- service and cache


def test_what_a_report_needs_is_fetched_and_verifies_it(kds: KdsClient, cache: EndorsementCache) -> None:
    told: list[str] = []
    found = gather_endorsements(NEEDED, at=AT, source=kds, cache=cache, progress=told.append).require()
    assert names(found.certificates) == ["ARK-Milan", "SEV-Milan", "SEV-VCEK"]
    assert len(told) == len(NEEDED)
    verified = verify_snp_evidence(EVIDENCE, endorsements=found, anchors=ANCHORS, at=AT)
    assert verified.simulated


@pytest.mark.parametrize("product", list(SnpProduct))
def test_every_product_line_is_fetched_and_verifies(kds: KdsClient, product: SnpProduct) -> None:
    evidence = evidence_of(chip_of(product))
    found = gather_for(evidence, at=AT, source=kds, cache=None).require()
    assert verify_snp_evidence(evidence, endorsements=found, anchors=ANCHORS, at=AT).product is product


def test_what_is_in_the_cache_is_not_asked_for_again(server: Server, gather: Gather) -> None:
    first = gather()
    assert len(server.requests) == 3
    second = gather()
    assert len(server.requests) == 3
    assert second == first
    assert gather(offline=True) == first
    assert first.failures == ()


def test_without_a_cache_everything_is_asked_for_each_time(server: Server, gather: Gather) -> None:
    gather(cache=None)
    gather(cache=None)
    assert len(server.requests) == 6


def test_one_request_that_stands_twice_is_sent_once(server: Server, gather: Gather) -> None:
    assert len(gather([CHAIN, CHAIN]).entries) == 1
    assert len(server.requests) == 1


def test_a_damaged_record_is_fetched_again(server: Server, gather: Gather, cache: EndorsementCache) -> None:
    gather()
    for path in cache.directory.rglob("*.cbor"):
        path.write_bytes(path.read_bytes()[:-9])
    assert gather().failures == ()
    assert len(server.requests) == 6
    assert gather(offline=True).failures == ()


def test_the_answers_make_a_bundle_that_reads_like_them(gather: Gather) -> None:
    found = gather()
    whole = build_bundle(found.entries, created=AT, expires=AT + 30 * DAY).to_bytes()
    verified = verify_bundle(parse_bundle(whole), at=AT, keys=UnsignedBundles.ACCEPTED)
    assert names(verified.endorsements.certificates) == names(found.endorsements.certificates)
    assert [entry.kind for entry in verified.entries] == ["amd-vcek", "amd-chain", "amd-crl"]
    assert all(entry.source.startswith("http://127.0.0.1:") for entry in verified.entries)


def test_the_moment_needs_a_time_zone(gather: Gather, kds: KdsClient) -> None:
    with pytest.raises(ValueError, match="time zone"):
        gather(at=AT.replace(tzinfo=None))
    with pytest.raises(ValueError, match="time zone"):
        gather_for(EVIDENCE, at=AT.replace(tzinfo=None), source=kds, cache=None)


# -- offline


def test_offline_nothing_is_sent_and_what_is_missing_is_named(server: Server, gather: Gather) -> None:
    gather([CHAIN])
    sent = len(server.requests)
    found = gather(offline=True)
    assert names(found.endorsements.certificates) == ["ARK-Milan", "SEV-Milan"]
    assert [failure.code for failure in found.failures] == ["endorsement-not-cached"] * 2
    with pytest.raises(EndorsementError) as raised:
        found.require()
    assert (raised.value.code, raised.value.exit_code) == ("endorsement-not-cached", 5)
    assert len(server.requests) == sent
    with pytest.raises(EndorsementError):
        gather(cache=None, offline=True).require()


def test_offline_an_outdated_list_is_handed_on_for_what_it_revokes(gather: Gather) -> None:
    gather([CRL])
    found = gather([CRL], offline=True, at=AT + 400 * DAY)
    assert found.failures == ()
    assert not found.endorsements.crls[0].is_current(AT + 400 * DAY)


# -- failures


def test_one_request_that_is_refused_does_not_hide_the_others(server: Server, gather: Gather) -> None:
    server.queue = [Reply(status=404)]
    found = gather()
    assert [failure.code for failure in found.failures] == ["kds-not-found"]
    assert [entry.kind for entry in found.entries] == ["amd-chain", "amd-crl"]
    with pytest.raises(EndorsementError):
        found.require()


def test_a_service_that_is_out_of_reach_is_asked_once_in_a_call(server: Server, gather: Gather, watch: Watch) -> None:
    server.answering = lambda path, query: Reply(status=429, headers=(("Retry-After", "3600"),))
    found = gather()
    assert [failure.code for failure in found.failures] == ["kds-throttled"] * 3
    assert len(server.requests) == 1


def test_what_is_not_what_was_asked_for_is_neither_used_nor_kept(server: Server, gather: Gather) -> None:
    genoa = simulated()("/vcek/v1/Genoa/cert_chain", "").body
    server.queue = [Reply(body=b"<html>welcome</html>"), Reply(body=genoa), Reply(body=b"")]
    found = gather()
    assert [failure.code for failure in found.failures] == ["kds-answer-invalid"] * 3
    assert found.entries == ()
    assert len(gather(offline=True).failures) == 3
    assert gather().failures == ()


# -- revocation lists


@pytest.mark.parametrize(
    ("at", "requests"),
    [(AT, 1), (AT + 365 * DAY - timedelta(seconds=1), 1), (AT + 365 * DAY, 2), (AT + 366 * DAY, 2)],
)
def test_a_list_is_kept_until_its_next_update(server: Server, gather: Gather, at: object, requests: int) -> None:
    gather([CRL])
    gather([CRL], at=at)
    assert len(server.requests) == requests


def test_a_newer_list_takes_the_place_of_the_outdated_one_and_both_are_handed_on(
    server: Server, gather: Gather
) -> None:
    later = AT + 400 * DAY
    server.answering = simulated(revoked=(65537,))
    gather([CRL])
    server.answering = simulated(this_update=later)
    found = gather([CRL], at=later)
    assert [crl.is_current(later) for crl in found.endorsements.crls] == [True, False]
    (kept,) = gather([CRL], at=later, offline=True).endorsements.crls
    assert kept.is_current(later)


def test_mc_9_a_list_that_steps_back_hides_nothing_and_is_not_kept(server: Server, gather: Gather) -> None:
    server.answering = simulated(this_update=AT, days=10, revoked=(65537,))
    gather()
    server.answering = simulated(this_update=AT - 20 * DAY, days=365)  # current, older, and silent
    later = AT + 30 * DAY
    found = gather(at=later)
    with pytest.raises(RevokedError):
        verify_snp_evidence(EVIDENCE, endorsements=found.endorsements, anchors=ANCHORS, at=later)
    (kept,) = gather([CRL], offline=True, at=later).endorsements.crls
    assert kept.revoked == {65537}


def test_a_list_from_the_future_in_the_cache_does_not_stay_for_ever(server: Server, gather: Gather) -> None:
    server.answering = simulated(this_update=AT + 9000 * DAY)
    gather([CRL])
    server.answering = simulated()
    gather([CRL])
    (kept,) = gather([CRL], offline=True).endorsements.crls
    assert kept.is_current(AT)


def test_an_outdated_list_is_handed_on_when_no_newer_one_can_be_had(server: Server, gather: Gather) -> None:
    gather([CRL])
    server.answering = lambda path, query: Reply(status=404)
    found = gather([CRL], at=AT + 400 * DAY)
    assert [failure.code for failure in found.failures] == ["kds-not-found"]
    assert len(found.endorsements.crls) == 1


# -- what no longer matches together


def old_world(server: Server) -> None:
    """A service whose intermediate of Milan has another number and another key than today's."""
    product, old_key = SnpProduct.MILAN, simulated_ca_key(SnpProduct.MILAN, CaRole.ASVK)
    old_ask = replace(ca_template(product, CaRole.ASK), serial=65536 + 99, spki=old_key.spki)
    chain = (old_ask.issue(simulated_ca_key(product, CaRole.ARK)), simulated_chain(product, kind=LeafKind.VCEK)[1])
    leaf = chip_of().leaf_template().issue(old_key)
    today = simulated()

    def answering(path: str, query: str) -> Reply:
        if path == "/vcek/v1/Milan/cert_chain":
            return Reply(body=b"".join(pem("CERTIFICATE", whole) for whole in chain))
        return Reply(body=leaf) if query else today(path, query)

    server.answering = answering


def verifies(found: Gathered) -> bool:
    return verify_snp_evidence(EVIDENCE, endorsements=found.endorsements, anchors=ANCHORS, at=AT).crl is not None


def test_a_chain_and_a_leaf_of_a_revoked_intermediate_are_fetched_again(server: Server, gather: Gather) -> None:
    old_world(server)
    old = gather([VCEK, CHAIN])
    server.answering = simulated(revoked=(65536 + 99,))
    told: list[str] = []
    found = gather(progress=told.append)
    assert found.failures == ()
    assert verifies(found)
    assert old.entries[0] != found.entries[0]
    assert sum("no longer matches" in line for line in told) == 2
    assert gather(offline=True) == found


def test_an_old_chain_beside_a_new_leaf_is_fetched_again(server: Server, gather: Gather) -> None:
    old_world(server)
    gather([CHAIN])
    server.answering = simulated()
    assert verifies(gather())


def test_an_old_leaf_beside_a_new_chain_is_fetched_again(server: Server, gather: Gather) -> None:
    old_world(server)
    gather([VCEK])
    server.answering = simulated()
    assert verifies(gather())


def test_what_does_not_fit_and_came_from_the_service_is_left_to_verification(server: Server, gather: Gather) -> None:
    old_world(server)
    mixed = server.answering
    server.answering = lambda path, query: mixed(path, query) if query else simulated()(path, query)
    found = gather()
    assert len(server.requests) == 3
    assert found.failures == ()


def test_when_what_does_not_fit_cannot_be_replaced_both_reasons_are_there(server: Server, gather: Gather) -> None:
    old_world(server)
    gather([CHAIN])
    current = simulated()
    server.answering = lambda path, query: Reply(status=404) if path.endswith("cert_chain") else current(path, query)
    found = gather()
    assert [failure.code for failure in found.failures] == ["kds-not-found"]
    assert len(found.entries) == 3


def test_offline_what_does_not_fit_is_left_to_verification(server: Server, gather: Gather) -> None:
    old_world(server)
    gather([CHAIN, CRL])
    server.answering = simulated()
    gather([VCEK])
    sent = len(server.requests)
    assert gather(offline=True).failures == ()
    assert len(server.requests) == sent


# -- from a report


def test_a_report_that_carries_its_certificates_needs_chain_and_list_only(server: Server, kds: KdsClient) -> None:
    chip = chip_of()
    found = gather_for(evidence_of(chip, table=chip.certificate_table()), at=AT, source=kds, cache=None).require()
    assert names(found.certificates) == ["ARK-Milan", "SEV-Milan"]
    assert len(server.requests) == 2


def test_a_report_signed_by_a_vlek_is_served_with_the_chain_of_vleks(kds: KdsClient) -> None:
    chip = SimulatedChip.of(SnpProduct.GENOA, csp_id="CN=cloud.example")
    evidence = evidence_of(chip, table=chip.certificate_table())
    found = gather_for(evidence, at=AT, source=kds, cache=None).require()
    assert names(found.certificates) == ["ARK-Genoa", "SEV-VLEK-Genoa"]
    assert verify_snp_evidence(evidence, endorsements=found, anchors=ANCHORS, at=AT).leaf.kind is LeafKind.VLEK


@pytest.mark.parametrize(
    ("chip", "code"),
    [
        (SimulatedChip.of(SnpProduct.MILAN, csp_id="CN=cloud.example"), "snp-vlek-not-fetchable"),
        (chip_of(mask_chip_id=True), "snp-chip-id-masked"),
        (chip_of(version=2, mask_chip_id=True), "snp-chip-id-masked"),
    ],
)
def test_a_leaf_that_no_service_hands_out_is_a_failure_and_nothing_is_sent(
    server: Server, kds: KdsClient, chip: SimulatedChip, code: str
) -> None:
    found = gather_for(evidence_of(chip), at=AT, source=kds, cache=None)
    assert [failure.code for failure in found.failures] == [code]
    assert server.requests == []
    with pytest.raises(EndorsementError):
        gather_for(evidence_of(chip), at=AT, source=kds, cache=None).require()


# -- reports of version 2, which do not name their product line


def knows(server: Server, *lines: SnpProduct) -> None:
    """Let the service know the chip under these lines only, as the real one does."""
    current = simulated()

    def answering(path: str, query: str) -> Reply:
        if query and not any(f"/{line}/" in path for line in lines):
            return Reply(status=404)
        return current(path, query)

    server.answering = answering


@pytest.mark.parametrize(("line", "requests"), [(SnpProduct.MILAN, 3), (SnpProduct.GENOA, 4)])
def test_milan_is_asked_first_and_genoa_when_milan_does_not_know_the_chip(
    server: Server, kds: KdsClient, cache: EndorsementCache, line: SnpProduct, requests: int
) -> None:
    knows(server, line)
    evidence = evidence_of(chip_of(line, version=2))
    found = gather_for(evidence, at=AT, source=kds, cache=cache).require()
    assert len(server.requests) == requests
    assert verify_snp_evidence(evidence, endorsements=found, anchors=ANCHORS, at=AT).product is line
    again = gather_for(evidence, at=AT, source=kds, cache=cache).require()
    assert len(server.requests) == requests
    assert again == found
    assert gather_for(evidence, at=AT, source=kds, cache=cache, offline=True).require() == found


def test_a_given_line_is_not_guessed(server: Server, kds: KdsClient) -> None:
    evidence = evidence_of(chip_of(SnpProduct.GENOA, version=2))
    found = gather_for(evidence, at=AT, source=kds, cache=None, product=SnpProduct.GENOA).require()
    assert names(found.certificates) == ["ARK-Genoa", "SEV-Genoa", "SEV-VCEK"]
    assert not any("Milan" in request for request in server.requests)


def test_the_leaf_beside_a_report_names_the_line(server: Server, kds: KdsClient) -> None:
    chip = chip_of(SnpProduct.GENOA, version=2)
    found = gather_for(evidence_of(chip, table=chip.certificate_table()), at=AT, source=kds, cache=None).require()
    assert names(found.certificates) == ["ARK-Genoa", "SEV-Genoa"]


def test_an_unreadable_leaf_beside_a_report_is_left_to_verification(server: Server, kds: KdsClient) -> None:
    evidence = evidence_of(chip_of(version=2))._replace(leaves=(b"garbage",))
    found = gather_for(evidence, at=AT, source=kds, cache=None)
    assert [failure.code for failure in found.failures] == ["snp-product-needed"]
    assert server.requests == []


def test_a_chip_that_no_line_knows_is_not_found(server: Server, kds: KdsClient, cache: EndorsementCache) -> None:
    knows(server)
    evidence = evidence_of(chip_of(version=2))
    with pytest.raises(EndorsementError) as raised:
        gather_for(evidence, at=AT, source=kds, cache=cache).require()
    assert raised.value.code == "kds-not-found"
    assert "not found under Milan or Genoa" in raised.value.message
    assert len(server.requests) == 2
    with pytest.raises(EndorsementError) as raised:
        gather_for(evidence, at=AT, source=kds, cache=cache, offline=True).require()
    assert raised.value.code == "endorsement-not-cached"
    assert len(server.requests) == 2


def test_a_busy_service_ends_the_search_for_the_line(server: Server, kds: KdsClient) -> None:
    server.answering = lambda path, query: Reply(status=429, headers=(("Retry-After", "3600"),))
    found = gather_for(evidence_of(chip_of(version=2)), at=AT, source=kds, cache=None)
    assert [failure.code for failure in found.failures] == ["kds-throttled"]
    assert len(server.requests) == 1


def test_a_line_whose_layout_the_tcb_does_not_have_cannot_be_asked(server: Server, kds: KdsClient) -> None:
    evidence = evidence_of(chip_of(version=2))
    found = gather_for(evidence, at=AT, source=kds, cache=None, product=SnpProduct.TURIN)
    assert [failure.code for failure in found.failures] == ["snp-vcek-not-fetchable"]
    assert server.requests == []


def test_a_request_can_be_named_without_any_report(kds: KdsClient) -> None:
    chip = chip_of(SnpProduct.TURIN)
    request = vcek_request(product=chip.product, hwid=chip.chip_id, tcb=chip.reported_tcb)
    found = gather_endorsements([request], at=AT, source=kds, cache=None).require()
    assert names(found.certificates) == ["SEV-VCEK"]
