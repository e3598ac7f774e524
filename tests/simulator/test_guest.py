"""Reports of simulated guests verify under the simulation's roots, and nowhere else."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import AttestError
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.structure import REPORT_BYTES, SIGNED_BYTES, VERSIONS, layout_of_version, parse_report
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence
from attest_simulator import (
    CaRole,
    SimulatedChip,
    SimulatedGuest,
    ca_template,
    simulated_ca_key,
    simulated_chain,
    simulated_crl,
)
from attest_simulator.certificates import vlek_template

AT = datetime(2026, 6, 1, tzinfo=UTC)
REPORT_DATA = bytes(range(64))
CSP_ID = "CN=simulated-cloud.example"
SIMULATION = TrustAnchors.simulation()
PRODUCTS = list(SnpProduct)
OWNERS = [None, CSP_ID]


def verified(
    evidence: bytes, endorsements: Endorsements, *, anchors: TrustAnchors = SIMULATION, at: datetime = AT
) -> VerifiedSnpReport:
    return verify_snp_evidence(
        parse_snp_evidence(evidence), endorsements=endorsements, anchors=anchors, at=at, unchecked=()
    )


def refusal_of(evidence: bytes, endorsements: Endorsements, *, anchors: TrustAnchors = SIMULATION) -> str:
    with pytest.raises(AttestError) as refusal:
        verified(evidence, endorsements, anchors=anchors)
    return refusal.value.code


def ordinary(product: SnpProduct = SnpProduct.MILAN, *, name: str = "chip 0") -> SimulatedGuest:
    return SimulatedGuest(chip=SimulatedChip.of(product, name=name))


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("csp_id", OWNERS)
def test_a_report_of_every_product_version_and_key_verifies(
    product: SnpProduct, version: int, csp_id: str | None
) -> None:
    chip = SimulatedChip.of(product, report_version=version, csp_id=csp_id)
    report = SimulatedGuest(chip=chip).report(REPORT_DATA)
    result = verified(report, chip.endorsements(at=AT))
    assert len(report) == REPORT_BYTES
    assert result.simulated
    assert result.product is product
    assert result.leaf.kind is chip.kind
    assert result.report.version == version
    assert result.report.report_data == REPORT_DATA
    assert result.reported_tcb == chip.reported_tcb
    assert not result.provisional_firmware


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("csp_id", OWNERS)
def test_an_extended_report_needs_nothing_but_a_revocation_list(product: SnpProduct, csp_id: str | None) -> None:
    guest = SimulatedGuest(chip=SimulatedChip.of(product, csp_id=csp_id))
    evidence = guest.extended_report(REPORT_DATA)
    crl = simulated_crl(product, at=AT)
    assert verified(evidence, Endorsements(crls=(parse_crl(crl),))).simulated
    assert refusal_of(evidence, Endorsements()) == "crl-missing"
    assert verified(guest.extended_report(REPORT_DATA, crl=crl), Endorsements()).simulated
    kinds = [entry.kind for entry in parse_certificate_table(evidence[REPORT_BYTES:])]
    assert kinds == ["VCEK" if csp_id is None else "VLEK", "ASK", "ARK"]


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("csp_id", OWNERS)
@pytest.mark.parametrize("extended", [False, True])
def test_the_vendor_anchors_refuse_all_simulated_evidence(
    product: SnpProduct, version: int, csp_id: str | None, extended: bool
) -> None:
    chip = SimulatedChip.of(product, report_version=version, csp_id=csp_id)
    guest = SimulatedGuest(chip=chip)
    evidence = guest.extended_report(REPORT_DATA) if extended else guest.report(REPORT_DATA)
    code = refusal_of(evidence, chip.endorsements(at=AT), anchors=TrustAnchors.vendors())
    assert code == "simulated-root-refused"


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_vendor_anchors_refuse_simulated_evidence_that_hides_its_root(product: SnpProduct) -> None:
    guest = ordinary(product)
    leaf, intermediate, _ = map(parse_certificate, guest.chip.certificates())
    endorsements = replace(guest.chip.endorsements(at=AT), certificates=(leaf, intermediate))
    code = refusal_of(guest.report(REPORT_DATA), endorsements, anchors=TrustAnchors.vendors())
    assert code == "snp-root-missing"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_guest_reports_the_same_bytes(version: int) -> None:
    chips = [SimulatedChip.of(SnpProduct.GENOA, report_version=version) for _ in range(2)]
    first, second = (SimulatedGuest(chip=chip).extended_report(REPORT_DATA) for chip in chips)
    assert first == second


def test_another_name_is_another_chip() -> None:
    assert ordinary(name="a").chip.hwid != ordinary(name="b").chip.hwid
    report = ordinary(name="a").report(REPORT_DATA)
    assert refusal_of(report, ordinary(name="b").chip.endorsements(at=AT)) == "snp-chip-id-mismatch"


@settings(max_examples=20)
@given(report_data=st.binary(min_size=64, max_size=64))
def test_any_report_data_is_signed_into_the_report(report_data: bytes) -> None:
    guest = ordinary()
    assert verified(guest.report(report_data), guest.chip.endorsements(at=AT)).report.report_data == report_data


@pytest.mark.parametrize("length", [0, 63, 65])
def test_report_data_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        ordinary().report(bytes(length))


def test_what_the_guest_is_stands_in_its_report() -> None:
    guest = replace(
        ordinary(SnpProduct.GENOA),
        measurement=b"\1" * 48,
        policy=0x30001,
        vmpl=2,
        guest_svn=3,
        family_id=b"\4" * 16,
        image_id=b"\5" * 16,
        host_data=b"\6" * 32,
        id_key_digest=b"\7" * 48,
        author_key_digest=b"\x08" * 48,
        report_id=b"\x09" * 32,
        report_id_ma=b"\x0a" * 32,
        launch_tcb=SnpTcbVersion(bootloader=1, tee=0, snp=2, microcode=3),
        launch_mitigations=1,
    )
    result = verified(guest.report(REPORT_DATA), guest.chip.endorsements(at=AT))
    report = result.report
    for name in ("measurement", "policy", "vmpl", "guest_svn", "family_id", "image_id", "host_data"):
        assert getattr(report, name) == getattr(guest, name)
    for name in ("id_key_digest", "author_key_digest", "report_id", "report_id_ma"):
        assert getattr(report, name) == getattr(guest, name)
    assert report.author_key_en
    assert result.launch_tcb == guest.launch_tcb
    assert (report.launch_mit_vector, report.current_mit_vector) == (1, guest.chip.mitigations)


def test_what_the_chip_is_stands_in_its_report() -> None:
    chip = SimulatedChip.of(SnpProduct.GENOA)
    newer = replace(chip.current_tcb, snp=255)
    chip = replace(chip, model=0xA0, stepping=2, current_tcb=newer, current_firmware=(2, 0, 1), platform_info=0x65)
    result = verified(SimulatedGuest(chip=chip).report(REPORT_DATA), chip.endorsements(at=AT))
    report = result.report
    assert (report.cpuid_fam_id, report.cpuid_mod_id, report.cpuid_step) == (0x19, 0xA0, 2)
    assert (report.current_major, report.current_minor, report.current_build) == (2, 0, 1)
    assert (report.platform_info, result.current_tcb, result.launch_tcb) == (0x65, newer, newer)
    assert result.provisional_firmware


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_masked_chip_shows_no_chip_id(product: SnpProduct) -> None:
    chip = replace(SimulatedChip.of(product), mask_chip_id=True)
    result = verified(SimulatedGuest(chip=chip).report(REPORT_DATA), chip.endorsements(at=AT))
    assert result.report.chip_id == bytes(64)
    assert result.leaf.hwid == chip.hwid


def test_a_chip_that_cannot_exist_is_a_mistake() -> None:
    turin, milan = SimulatedChip.of(SnpProduct.TURIN), SimulatedChip.of(SnpProduct.MILAN)
    with pytest.raises(ValueError, match="report version 6"):
        replace(milan, report_version=6)
    with pytest.raises(ValueError, match="expected 8 bytes, got 64"):
        replace(turin, hwid=milan.hwid)
    with pytest.raises(ValueError, match="expected no FMC"):
        replace(milan, committed_tcb=turin.committed_tcb)
    with pytest.raises(ValueError, match="expected an FMC"):
        SimulatedChip.of(SnpProduct.TURIN, tcb=milan.current_tcb)


# -- what the firmware would refuse


def test_an_overridden_field_is_signed() -> None:
    guest = ordinary()
    report = guest.report(REPORT_DATA, override={"policy": 0xB0000, "measurement": b"\xee" * 48})
    result = verified(report, guest.chip.endorsements(at=AT))
    assert (result.report.policy, result.report.measurement) == (0xB0000, b"\xee" * 48)


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ({"reported_tcb": bytes(8)}, "snp-tcb-mismatch"),
        ({"current_tcb": bytes(8)}, "snp-tcb-inconsistent"),
        ({"chip_id": b"\1" * 64}, "snp-chip-id-mismatch"),
        ({"cpuid_mod_id": 0x11}, "snp-product-mismatch"),
        ({"signature_r": bytes(72)}, "snp-signature-invalid"),
        ({"signature_s": b"\1" * 72}, "snp-signature-invalid"),
        ({"key_info": 1 << 1}, "snp-report-unsigned"),
        ({"key_info": 7 << 2}, "snp-report-unsigned"),
        ({"key_info": 1 << 2}, "snp-signer-kind-mismatch"),
        ({"version": 6}, "snp-version-unsupported"),
        ({"policy": 0}, "snp-field-malformed"),
        ({"signature_algo": 2}, "snp-signature-algorithm-unsupported"),
    ],
)
def test_a_lie_in_one_field_is_refused_for_that_lie(override: dict[str, int | bytes], code: str) -> None:
    guest = ordinary()
    report = guest.report(REPORT_DATA, override=override)
    assert refusal_of(report, guest.chip.endorsements(at=AT)) == code


def test_overriding_one_half_of_the_signature_leaves_the_other() -> None:
    guest = ordinary()
    genuine, forged = (
        parse_report(guest.report(REPORT_DATA, override=override)) for override in ({}, {"signature_r": b"\1" * 72})
    )
    assert (forged.signature_r, forged.signature_s) == (b"\1" * 72, genuine.signature_s)


@pytest.mark.parametrize("override", [{"no_such_field": 1}, {"measurement": bytes(47)}, {"vmpl": 1 << 32}])
def test_an_override_that_fits_no_field_is_a_mistake(override: dict[str, int | bytes]) -> None:
    with pytest.raises(ValueError, match="ATTESTATION_REPORT"):
        ordinary().report(REPORT_DATA, override=override)


def test_an_unsigned_report_carries_a_zero_signature() -> None:
    chip = replace(SimulatedChip.of(SnpProduct.MILAN), mask_chip_key=True)
    assert not any(SimulatedGuest(chip=chip).report(REPORT_DATA)[SIGNED_BYTES:])


def test_any_bytes_can_be_signed_even_those_that_no_layout_allows() -> None:
    chip = SimulatedChip.of(SnpProduct.MILAN)
    report = bytearray(SimulatedGuest(chip=chip).report(REPORT_DATA))
    report[0x04C] = 1
    forged = chip.sign(bytes(report))
    assert forged[SIGNED_BYTES:] != bytes(report[SIGNED_BYTES:])
    assert refusal_of(forged, chip.endorsements(at=AT)) == "reserved-not-zero"
    with pytest.raises(ValueError, match="1184 bytes"):
        chip.sign(bytes(1183))


# -- what does not belong together


def test_a_vlek_under_the_ask_is_refused() -> None:
    chip = SimulatedChip.of(SnpProduct.MILAN, csp_id=CSP_ID)
    report = SimulatedGuest(chip=chip).report(REPORT_DATA)
    ask_key = simulated_ca_key(SnpProduct.MILAN, CaRole.ASK)
    template = vlek_template(product=SnpProduct.MILAN, csp_id=CSP_ID, tcb=chip.reported_tcb)
    chain = (
        *simulated_chain(SnpProduct.MILAN, kind=LeafKind.VLEK),
        *simulated_chain(SnpProduct.MILAN, kind=LeafKind.VCEK),
    )
    crls = chip.endorsements(at=AT).crls
    # In the ASVK's name, and signed by the ASK.
    in_its_name = (template.issue(ask_key), *chain)
    # In the ASK's own name.
    ask_name = ca_template(SnpProduct.MILAN, CaRole.ASK).subject
    in_own_name = (replace(template, issuer=ask_name).issue(ask_key), *chain)
    codes = [
        refusal_of(report, Endorsements(certificates=tuple(map(parse_certificate, certificates)), crls=crls))
        for certificates in (in_its_name, in_own_name)
    ]
    assert codes == ["certificate-signature-invalid", "snp-leaf-malformed"]


@pytest.mark.parametrize("version", VERSIONS)
def test_genoa_under_the_chain_of_milan_is_refused(version: int) -> None:
    genoa = SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA, report_version=version))
    milan = SimulatedChip.of(SnpProduct.MILAN, tcb=genoa.chip.reported_tcb)
    milan = replace(milan, hwid=genoa.chip.hwid)
    # Version 2 does not name its product line: nothing but the key tells the two apart.
    expected = "snp-signature-invalid" if version == 2 else "snp-product-mismatch"
    assert refusal_of(genoa.report(REPORT_DATA), milan.endorsements(at=AT)) == expected


def test_a_genoa_intermediate_signed_by_the_ark_of_milan_is_refused() -> None:
    guest = ordinary(SnpProduct.GENOA)
    milan_ark = ca_template(SnpProduct.MILAN, CaRole.ARK)
    milan_key = simulated_ca_key(SnpProduct.MILAN, CaRole.ARK)
    ask = replace(ca_template(SnpProduct.GENOA, CaRole.ASK), issuer=milan_ark.subject).issue(milan_key)
    certificates = (guest.chip.leaf_certificate(), ask, milan_ark.issue(milan_key))
    endorsements = Endorsements(
        certificates=tuple(map(parse_certificate, certificates)),
        crls=(parse_crl(simulated_crl(SnpProduct.MILAN, at=AT)),),
    )
    assert refusal_of(guest.report(REPORT_DATA), endorsements) == "snp-product-mismatch"


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_listed_intermediate_is_refused(product: SnpProduct) -> None:
    guest = ordinary(product)
    serial = ca_template(product, CaRole.ASK).serial
    endorsements = guest.chip.endorsements(at=AT, revoked=(serial,))
    assert refusal_of(guest.report(REPORT_DATA), endorsements) == "certificate-revoked"


# -- against what hardware made


@pytest.mark.parametrize(
    ("folder", "product"),
    [
        ("milan-v2-vcek", SnpProduct.MILAN),
        ("milan-v2-debug", SnpProduct.MILAN),
        ("milan-v3-vlek", SnpProduct.MILAN),
        ("genoa-v5-vcek", SnpProduct.GENOA),
    ],
)
def test_a_report_with_the_values_of_a_genuine_one_has_its_bytes(
    vectors_dir: Path, folder: str, product: SnpProduct
) -> None:
    genuine = parse_report((vectors_dir / "sev-snp" / folder / "report.bin").read_bytes())
    names = layout_of_version(genuine.version).names
    guest = SimulatedGuest(chip=SimulatedChip.of(product, report_version=genuine.version))
    values: dict[str, int | bytes] = {
        name: getattr(genuine, name) for name in names if not name.startswith("signature_") or name == "signature_algo"
    }
    ours = guest.report(genuine.report_data, override=values)
    assert ours[:SIGNED_BYTES] == genuine.signed_bytes
    # R and S: other numbers, in the same places.
    assert all(not any(ours[at + 48 : at + 72]) and any(ours[at : at + 48]) for at in (0x2A0, 0x2E8))
    assert not any(ours[0x330:])
