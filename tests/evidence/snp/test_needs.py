"""What a report needs is named completely, or it is said why nobody can fetch it."""

from dataclasses import replace

import pytest

from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest
from attest.errors import EndorsementError
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_snp_evidence
from attest.evidence.snp.needs import needed_endorsements, vcek_request
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator import SimulatedChip, SimulatedGuest


def evidence(chip: SimulatedChip, *, with_table: bool = False) -> ParsedSnpEvidence:
    guest = SimulatedGuest(chip=chip)
    return parse_snp_evidence(guest.extended_report(bytes(64)) if with_table else guest.report(bytes(64)))


@pytest.mark.parametrize(
    ("product", "names"),
    [
        (SnpProduct.MILAN, ("blSPL", "teeSPL", "snpSPL", "ucodeSPL")),
        (SnpProduct.GENOA, ("blSPL", "teeSPL", "snpSPL", "ucodeSPL")),
        (SnpProduct.TURIN, ("fmcSPL", "blSPL", "teeSPL", "snpSPL", "ucodeSPL")),
    ],
)
def test_a_bare_report_needs_its_vcek_the_chain_and_the_crl(product: SnpProduct, names: tuple[str, ...]) -> None:
    chip = SimulatedChip.of(product)
    leaf, chain, crl = needed_endorsements(evidence(chip))
    levels = chip.reported_tcb.components()
    assert leaf == AmdVcekRequest(
        product=str(product), hwid=chip.hwid, spls=tuple(zip(names, levels.values(), strict=True))
    )
    assert chain == AmdChainRequest(product=str(product), kind="vcek")
    assert crl == AmdCrlRequest(product=str(product), kind="vcek")


def test_the_reported_tcb_selects_the_vcek() -> None:
    reported = SnpTcbVersion(bootloader=1, tee=2, snp=3, microcode=4)
    leaf, *_ = needed_endorsements(evidence(replace(SimulatedChip.of(SnpProduct.GENOA), reported_tcb=reported)))
    assert isinstance(leaf, AmdVcekRequest)
    assert leaf.spls == (("blSPL", 1), ("teeSPL", 2), ("snpSPL", 3), ("ucodeSPL", 4))


def test_a_leaf_that_came_along_is_not_needed_again() -> None:
    chip = SimulatedChip.of(SnpProduct.GENOA)
    assert needed_endorsements(evidence(chip, with_table=True)) == needed_endorsements(evidence(chip))[1:]


def test_a_vlek_chain_has_its_own_intermediate() -> None:
    chip = SimulatedChip.of(SnpProduct.MILAN, csp_id="CN=cloud.example")
    assert needed_endorsements(evidence(chip, with_table=True)) == (
        AmdChainRequest(product="Milan", kind="vlek"),
        AmdCrlRequest(product="Milan", kind="vlek"),
    )


def test_a_report_of_version_2_needs_somebody_to_say_its_product_line() -> None:
    old = evidence(SimulatedChip.of(SnpProduct.TURIN, report_version=2))
    with pytest.raises(EndorsementError) as caught:
        needed_endorsements(old)
    assert (caught.value.code, caught.value.exit_code) == ("snp-product-needed", 5)
    leaf, chain, _ = needed_endorsements(old, product=SnpProduct.TURIN)
    assert isinstance(leaf, AmdVcekRequest)
    assert (len(leaf.hwid), leaf.product, chain.product) == (8, "Turin", "Turin")


def test_what_the_report_says_goes_before_what_somebody_says() -> None:
    leaf, *_ = needed_endorsements(evidence(SimulatedChip.of(SnpProduct.GENOA)), product=SnpProduct.MILAN)
    assert leaf.product == "Genoa"


def test_no_service_hands_a_vlek_to_a_stranger() -> None:
    with pytest.raises(EndorsementError, match="signed by a VLEK") as caught:
        needed_endorsements(evidence(SimulatedChip.of(SnpProduct.MILAN, csp_id="CN=cloud.example")))
    assert caught.value.code == "snp-vlek-not-fetchable"


def test_no_vcek_can_be_asked_for_when_the_chip_is_masked() -> None:
    with pytest.raises(EndorsementError, match="masked") as caught:
        needed_endorsements(evidence(replace(SimulatedChip.of(SnpProduct.GENOA), mask_chip_id=True)))
    assert caught.value.code == "snp-chip-id-masked"


def test_a_vcek_of_turin_is_asked_for_by_eight_bytes() -> None:
    tcb = SnpTcbVersion(fmc=1, bootloader=2, tee=3, snp=4, microcode=5)
    request = vcek_request(product=SnpProduct.TURIN, hwid=bytes(range(64)), tcb=tcb)
    assert (request.hwid, request.spls[0]) == (bytes(range(8)), ("fmcSPL", 1))
