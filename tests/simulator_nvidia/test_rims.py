"""Simulated RIMs: the signature holds for a library that is not ours, the text is NVIDIA's, the values fit reports."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256, sha384
from pathlib import Path

import pytest
from cryptography import x509
from lxml import etree  # type: ignore[import-untyped]  # it has no types
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod
from signxml.exceptions import InvalidDigest, InvalidSignature
from signxml.verifier import SignatureConfiguration, XMLVerifier

from attest.evidence.gpu.rim import read_rim, verify_rim_signature
from attest_simulator.nvidia import PRODUCTS, Product, RimTemplate, SimulatedGpu, SimulatedNvSwitch
from attest_simulator.nvidia.keys import p384_key
from attest_simulator.nvidia.rims import driver_rim, firmware_rim, rim_answer, rim_of_id, signed_in
from attest_simulator.nvidia.xml_writer import document_text
from tests.simulator_nvidia import recorded

ISSUED = datetime(2026, 1, 1, tzinfo=UTC)
HOPPER, BLACKWELL, LS10 = (PRODUCTS[name] for name in ("hopper", "blackwell", "ls10"))
RIMS = {
    "hopper driver": driver_rim(HOPPER, "580.95.05", issued=ISSUED),
    "hopper vbios": firmware_rim(HOPPER, "96.00.9F.00.01", issued=ISSUED),
    "blackwell driver": driver_rim(BLACKWELL, "580.95.05", issued=ISSUED),
    "blackwell vbios": firmware_rim(BLACKWELL, "97.00.83.00.09", issued=ISSUED),
    "ls10": firmware_rim(LS10, "96.10.73.00.01", issued=ISSUED),
}
CONFIGURATION = SignatureConfiguration(
    require_x509=True,
    location="./",
    expect_references=1,
    signature_methods=frozenset({SignatureMethod.ECDSA_SHA384}),
    digest_algorithms=frozenset({DigestAlgorithm.SHA384}),
    default_reference_c14n_method=CanonicalizationMethod.CANONICAL_XML_1_1,
)
NAMESPACES = {"ns0": "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"}


def verify_with_signxml(xml: bytes, certificate: bytes) -> None:
    """Verify with a library: the certificate is pinned, its own chain is no matter here."""
    XMLVerifier().verify(xml, x509_cert=x509.load_der_x509_certificate(certificate), expect_config=CONFIGURATION)


@pytest.mark.parametrize("rim", RIMS.values(), ids=RIMS)
def test_the_signature_holds_for_a_library(rim: RimTemplate) -> None:
    verify_with_signxml(rim.issue(), rim.certificates[0])


def test_the_library_refuses_what_was_changed_or_signed_by_another() -> None:
    rim = RIMS["hopper driver"]
    value = next(iter(rim.values.values()))[0].hex().encode()
    with pytest.raises(InvalidDigest):
        verify_with_signxml(rim.issue().replace(value, value[::-1]), rim.certificates[0])
    with pytest.raises(InvalidSignature):
        verify_with_signxml(replace(rim, key=p384_key("other")).issue(), rim.certificates[0])


@pytest.mark.parametrize("rim", RIMS.values(), ids=RIMS)
def test_a_rim_is_read_as_it_was_written(rim: RimTemplate) -> None:
    parsed = read_rim(rim.document())
    verify_rim_signature(parsed)
    assert (parsed.product, parsed.edition, parsed.version) == (rim.product, rim.edition, rim.version)
    assert {index: tuple(values) for index, values in parsed.reference_values.items()} == dict(rim.values)
    assert tuple(certificate.der for certificate in parsed.certificates) == rim.certificates


@pytest.mark.parametrize("rim", RIMS.values(), ids=RIMS)
def test_the_same_firmware_gives_the_same_bytes_and_a_later_issue_other_ones(rim: RimTemplate) -> None:
    assert rim.issue() == rim.issue()
    later = rim_of_id(rim.id, issued=ISSUED.replace(year=2027))
    assert later is not None
    assert (later.values, later.tag_id) == (rim.values, rim.tag_id)
    assert later.issue() != rim.issue()


@pytest.mark.parametrize(
    ("name", "product", "active", "alternatives"),
    [
        ("hopper driver", "GH100", {7, *range(21, 41)}, {23: 2, 24: 2}),
        ("hopper vbios", "GH100", {*range(7), *range(8, 13)}, {12: 4}),
        ("blackwell driver", "GB100", {*range(21, 41)}, {23: 2, 24: 2}),
        ("blackwell vbios", "GB100", {*range(14), *range(15, 21)}, {6: 2}),
        ("ls10", "LS10", {*range(31)}, dict.fromkeys(range(9, 26), 4)),
    ],
)
def test_active_sets_and_alternatives_are_those_of_the_specification(
    name: str, product: str, active: set[int], alternatives: dict[int, int]
) -> None:
    rim = RIMS[name]
    assert (rim.product, set(rim.values)) == (product, active)
    several = {index: len(values) for index, values in rim.values.items() if len(values) > 1}
    assert several == {index: count for index, count in alternatives.items() if len(rim.values[index]) > 1}
    assert set(several) >= set(alternatives) - LS10.unused
    resources = etree.fromstring(rim.issue()).findall(".//ns0:Resource", NAMESPACES)
    assert len(resources) == 64
    assert {int(found.get("index", "")) for found in resources if found.get("active") == "True"} == active


@pytest.mark.parametrize(
    ("device", "rims"),
    [
        (SimulatedGpu.of(), ("hopper driver", "hopper vbios")),
        (SimulatedGpu.of("another", mode="ppcie"), ("hopper driver", "hopper vbios")),
        (SimulatedGpu.of(architecture="blackwell"), ("blackwell driver", "blackwell vbios")),
        (SimulatedNvSwitch.of(), ("ls10",)),
    ],
    ids=["hopper", "protected PCIe", "blackwell", "ls10"],
)
def test_devices_measure_what_their_rims_say(device: SimulatedGpu, rims: tuple[str, ...]) -> None:
    wanted = {index: values for name in rims for index, values in RIMS[name].values.items()}
    assert all(device.measurements[index] in values for index, values in wanted.items())
    assert sum(len(RIMS[name].values) for name in rims) == len(wanted)
    assert [found.id for found in device.rims(at=ISSUED)] == [RIMS[name].id for name in rims]


def test_protected_pcie_shows_in_one_measurement_as_recorded() -> None:
    single, board = SimulatedGpu.of().measurements, SimulatedGpu.of(mode="ppcie").measurements
    assert [i for i, (a, b) in enumerate(zip(single, board, strict=True)) if a != b] == [12]
    assert not any(single[12])


def test_the_text_is_nvidias_but_for_values_and_names_of_resources(vectors_dir: Path) -> None:
    path = recorded.nvidia(vectors_dir) / "gh100-550.90.07" / "driver-rim-other-version.xml"
    genuine = path.read_text().partition("<ds:Signature")[0]
    values = {
        int(index): tuple(map(bytes.fromhex, re.findall(r'ns2:Hash\d+="([0-9a-f]+)"', row)))
        for row, index in re.findall(r'(<ns0:Resource [^>]*index="(\d+)" active="True"[^>]*>)', genuine)
    }
    ours = replace(driver_rim(HOPPER, "550.144.03", issued=ISSUED), values=values).unsigned()
    text = document_text(ours).removesuffix("</SoftwareIdentity>")
    names = re.compile(r'name="[A-Za-z]*Measurement_(\d+)[A-Za-z_]*"')
    assert names.sub(r"\1", text) == names.sub(r"\1", genuine)
    signature = path.read_text().partition("</ds:SignedInfo>")[0].partition("<ds:Signature")[2]
    mine = RIMS["hopper driver"].issue().decode().partition("</ds:SignedInfo>")[0].partition("<ds:Signature")[2]
    digest = re.compile(r"<ds:DigestValue>[^<]*<")
    assert digest.sub("", mine) == digest.sub("", signature)


def test_the_tag_of_a_driver_rim_is_the_digest_of_product_and_version(vectors_dir: Path) -> None:
    rim = driver_rim(HOPPER, "550.144.03", issued=ISSUED)
    assert rim.tag_id == sha384(b"GH100_550.144.03").hexdigest()
    genuine = (recorded.nvidia(vectors_dir) / "gh100-550.90.07" / "driver-rim-other-version.xml").read_text()
    assert f'tagId="{rim.tag_id}"' in genuine


@pytest.mark.parametrize(
    ("product", "version", "expected"),
    [
        (HOPPER, "96.00.5e.00.01", "NV_GPU_VBIOS_1010_0200_882_96005E0001"),
        (LS10, "96.10.55.00.01", "NV_SWITCH_BIOS_5612_0002_890_9610550001"),
    ],
)
def test_ids_are_those_of_the_specification(product: Product, version: str, expected: str) -> None:
    rim = firmware_rim(product, version, issued=ISSUED)
    assert (rim.id, rim.version) == (expected, version.upper())
    assert HOPPER.driver_rim_id("550.144.03") == "NV_GPU_DRIVER_GH100_550.144.03"
    assert BLACKWELL.driver_rim_id("580.95.05") == "NV_GPU_CC_DRIVER_GB100_580.95.05"


@pytest.mark.parametrize("rim", RIMS.values(), ids=RIMS)
def test_an_id_finds_its_rim(rim: RimTemplate) -> None:
    found = rim_of_id(rim.id, issued=ISSUED)
    assert found is not None
    assert found.issue() == rim.issue()


@pytest.mark.parametrize(
    "rim_id",
    [
        "",
        "NV_GPU_DRIVER_GH100_",
        "NV_GPU_DRIVER_GH100_five",
        "NV_GPU_DRIVER_GB100_580.95.05",
        "NV_GPU_DRIVER_LS10_580.95.05",
        "NV_GPU_VBIOS_1010_0200_882_96005E00",
        "NV_GPU_VBIOS_9999_0200_882_96005E0001",
        "NV_SWITCH_BIOS_5612_0002_890_96.10",
    ],
)
def test_other_ids_find_nothing(rim_id: str) -> None:
    assert rim_of_id(rim_id, issued=ISSUED) is None


def test_the_services_answer_holds_the_document_and_its_digest() -> None:
    rim = RIMS["ls10"]
    answer = json.loads(rim_answer(rim))
    assert (answer["id"], b64decode(answer["rim"])) == (rim.id, rim.issue())
    assert answer["sha256"] == sha256(rim.issue()).hexdigest() == rim.document().sha256.hex()


def test_a_rim_lasts_two_years_from_its_issue() -> None:
    for issued, end in ((ISSUED, (2028, 1, 1)), (datetime(2028, 2, 29, tzinfo=UTC), (2030, 3, 1))):
        signer = x509.load_der_x509_certificate(driver_rim(HOPPER, "550.54.14", issued=issued).certificates[0])
        assert signer.not_valid_before_utc == issued
        assert signer.not_valid_after_utc == datetime(*end, tzinfo=UTC)
    assert signed_in(datetime(2026, 12, 31, 23, tzinfo=UTC)) == ISSUED
