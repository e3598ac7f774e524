"""The simulated key distribution service answers as AMD's does, and refuses what is not spelled right."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import AmdVcekRequest
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.needs import needed_endorsements
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.snp.verify import verify_snp_evidence
from attest_simulator import SimulatedChip, SimulatedGuest, SimulatedKds, simulated_chain, simulated_crl

AT = datetime(2026, 6, 1, tzinfo=UTC)
KDS = SimulatedKds(this_update=datetime(2026, 1, 1, tzinfo=UTC), next_update=datetime(2027, 1, 1, tzinfo=UTC))
HWID = "0f" * 64
QUERY = "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=219"


def address_of(request: AmdVcekRequest) -> tuple[str, str]:
    query = "&".join(f"{name}={level:02}" for name, level in request.spls)
    return f"/vcek/v1/{request.product}/{request.hwid.hex()}", query


@pytest.mark.parametrize("product", SnpProduct)
def test_what_it_hands_out_verifies_a_report(product: SnpProduct) -> None:
    guest = SimulatedGuest(chip=SimulatedChip.of(product))
    evidence = parse_snp_evidence(guest.report(bytes(64)))
    leaf_request = needed_endorsements(evidence)[0]
    assert isinstance(leaf_request, AmdVcekRequest)
    leaf = KDS.answer(*address_of(leaf_request))
    chain = KDS.answer(f"/vcek/v1/{product}/cert_chain")
    crl = KDS.answer(f"/vcek/v1/{product}/crl")
    assert [answer.status for answer in (leaf, chain, crl)] == [200, 200, 200]
    assert leaf.body == guest.chip.leaf_certificate()
    assert crl.body == simulated_crl(product, at=AT)
    certificates = (leaf.body, *(block for _, block in pem_blocks(chain.body)))
    endorsements = Endorsements(certificates=tuple(map(parse_certificate, certificates)), crls=(parse_crl(crl.body),))
    result = verify_snp_evidence(
        evidence, endorsements=endorsements, anchors=TrustAnchors.simulation(), at=AT, unchecked=()
    )
    assert result.simulated


@pytest.mark.parametrize("product", SnpProduct)
@pytest.mark.parametrize("kind", LeafKind)
def test_a_chain_is_the_intermediate_and_then_the_ark(product: SnpProduct, kind: LeafKind) -> None:
    answer = KDS.answer(f"/{kind}/v1/{product}/cert_chain")
    assert answer.content_type == "application/x-pem-file"
    assert pem_blocks(answer.body) == tuple(("CERTIFICATE", der) for der in simulated_chain(product, kind=kind))


@pytest.mark.parametrize("product", SnpProduct)
def test_the_lists_under_both_paths_are_one_and_name_what_is_revoked(product: SnpProduct) -> None:
    kds = replace(KDS, revoked=(65537,))
    answers = [kds.answer(f"/{kind}/v1/{product}/crl") for kind in LeafKind]
    assert answers[0] == answers[1]
    assert parse_crl(answers[0].body).revoked == {65537}
    assert parse_crl(KDS.answer(f"/vcek/v1/{product}/crl").body).revoked == frozenset()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/vcek/v1/Milan",
        "/vcek/v1/Milan/",
        "/vcek/v1/milan/crl",
        "/vcek/v1/Bergamo/cert_chain",
        "/vcek/v2/Milan/crl",
        "/vcek/v1/Milan/crl/",
        "/vcek/v1/Milan/../crl",
        "/vlek/v1/Milan/" + HWID,
    ],
)
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert KDS.answer(path, QUERY).status == 404


def test_a_vlek_is_not_handed_to_strangers() -> None:
    assert KDS.answer("/vlek/v1/Milan/cert", QUERY).status == 401


@pytest.mark.parametrize("hwid", ["0f" * 63, "0f" * 65, "0f" * 8, "0g" * 64, "0" * 127, "00" * 64])
def test_a_chip_that_is_not_spelled_right_is_a_bad_request(hwid: str) -> None:
    assert KDS.answer(f"/vcek/v1/Milan/{hwid}", QUERY).status == 400


def test_the_hwid_of_turin_has_8_bytes() -> None:
    query = f"fmcSPL=01&{QUERY}"
    assert KDS.answer(f"/vcek/v1/Turin/{HWID[:16]}", query).status == 200
    assert KDS.answer(f"/vcek/v1/Turin/{HWID}", query).status == 400


@pytest.mark.parametrize(
    "query",
    [
        "",
        "blSPL=04&teeSPL=00&snpSPL=24",
        f"{QUERY}&fmcSPL=01",
        f"{QUERY}&blSPL=04",
        f"{QUERY}&x=1",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=256",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=-1",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=0x10",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=٤",
        "blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL",
        "&".join(f"p{index}=1" for index in range(100)),
    ],
)
def test_a_tcb_that_is_not_spelled_right_is_a_bad_request(query: str) -> None:
    assert KDS.answer(f"/vcek/v1/Milan/{HWID}", query).status == 400


def test_turin_asks_for_fmc() -> None:
    assert KDS.answer(f"/vcek/v1/Turin/{HWID[:16]}", QUERY).status == 400


def test_levels_may_or_may_not_have_a_leading_zero_and_come_in_any_order() -> None:
    spellings = [QUERY, "ucodeSPL=219&snpSPL=024&teeSPL=0&blSPL=4"]
    answers = {KDS.answer(f"/vcek/v1/Milan/{HWID}", query) for query in spellings}
    assert len(answers) == 1
    (answer,) = answers
    assert (answer.status, answer.content_type) == (200, "application/pkix-cert")


@given(st.text(), st.text())
def test_any_request_gets_an_answer(path: str, query: str) -> None:
    assert KDS.answer(path, query).status in {200, 400, 401, 404}
    assert KDS.answer(f"/vcek/v1/Milan/{HWID}", query).status in {200, 400}
