"""What a quote needs is named by its own PCK certificate."""

from dataclasses import replace
from pathlib import Path

import pytest

from attest.endorsements.requests import (
    IntelPckCrlRequest,
    IntelQeIdentityRequest,
    IntelRootCrlRequest,
    IntelTcbInfoRequest,
)
from attest.errors import EndorsementError, EvidenceError
from attest.evidence.intel.needs import needed_endorsements
from attest.evidence.intel.quote import parse_quote
from attest_simulator.intel import IntelAuthority, SimulatedEnclave, SimulatedPlatform, SimulatedTd
from tests.evidence.intel.recorded import RECORDED, Recorded


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector.id)
def test_the_recorded_quotes_need_the_collateral_of_their_platform(vectors_dir: Path, vector: Recorded) -> None:
    quote = parse_quote(vector.read(vectors_dir))
    info, identity, pck_crl, root_crl = needed_endorsements(quote)
    pck = vector.facts["pck"]
    assert info == IntelTcbInfoRequest(tee=quote.tee, fmspc=bytes.fromhex(pck["fmspc"]))
    assert identity == IntelQeIdentityRequest(tee=quote.tee)
    assert pck_crl == IntelPckCrlRequest(ca="platform" if "Platform" in pck["issuer_cn"] else "processor")
    assert root_crl == IntelRootCrlRequest()


def test_each_tee_and_each_ca_has_requests_of_its_own() -> None:
    processor = SimulatedPlatform.of(ca=IntelAuthority.PROCESSOR, fmspc=b"\1\2\3\4\5\6")
    enclave = parse_quote(SimulatedEnclave(platform=processor).quote(bytes(64)))
    assert needed_endorsements(enclave)[:3] == (
        IntelTcbInfoRequest(tee="sgx", fmspc=b"\1\2\3\4\5\6"),
        IntelQeIdentityRequest(tee="sgx"),
        IntelPckCrlRequest(ca="processor"),
    )
    td = parse_quote(SimulatedTd(platform=SimulatedPlatform.of()).quote(bytes(64)))
    assert needed_endorsements(td)[1:3] == (IntelQeIdentityRequest(tee="tdx"), IntelPckCrlRequest(ca="platform"))


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_without_a_chain_nobody_can_say_what_is_needed(kind: int) -> None:
    platform = SimulatedPlatform.of()
    template = SimulatedTd(platform=platform).quote_template(bytes(64))
    quote = parse_quote(
        replace(template, certification_data=platform.certification_data(kind), certification_type=kind).issue()
    )
    with pytest.raises(EndorsementError, match=f"certification data {kind}") as raised:
        needed_endorsements(quote)
    assert (raised.value.code, raised.value.exit_code) == ("pck-not-fetchable", 5)
    assert "--endorsements" in (raised.value.hint or "")


def test_a_chain_that_cannot_be_read_is_malformed_evidence() -> None:
    quote = parse_quote(SimulatedTd(platform=SimulatedPlatform.of()).quote(bytes(64)))
    with pytest.raises(EvidenceError):
        needed_endorsements(replace(quote, certification_data=b"garbage"))
