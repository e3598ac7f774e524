"""Simulated certificates equal NVIDIA's byte by byte, but for keys, names and the hosts of links."""

import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID

from attest.endorsements.anchors import AnchorRole, TrustAnchors
from attest.endorsements.x509 import Certificate, Extension, parse_certificate, pem_blocks
from attest_simulator.nvidia import DEVICE_ROOT, PRODUCTS, RIM_ROOT, SIMULATED_NVIDIA, Architecture
from attest_simulator.nvidia.authorities import (
    Authority,
    identity_authority,
    issuing_authorities,
    provisioner_authority,
    reference_authority,
    reference_issuer,
)
from attest_simulator.nvidia.certificates import NvidiaCertificateTemplate, pem_bytes
from attest_simulator.nvidia.device_chain import DICE_FWID, DICE_TCB_INFO, DeviceKeys, firmware_id
from attest_simulator.nvidia.keys import spki_of
from attest_simulator.nvidia.rims import rim_signer_certificates, rim_signer_template
from tests.simulator_nvidia import recorded

ARCHITECTURES = tuple(PRODUCTS)
RECORDED = {"hopper": "gpu", "ls10": "switch"}
OF_THE_KEY = frozenset({"2.5.29.14", "2.5.29.35", "2.5.29.17", DICE_FWID})
"""What names keys or the device, whose length is that of the real ones."""
ISSUED = datetime(2026, 1, 1, tzinfo=UTC)


def keys(architecture: Architecture) -> DeviceKeys:
    product = PRODUCTS[architecture]
    return DeviceKeys(product=product, label="a device", fwid=firmware_id(product, "580.95.05"))


def as_genuine(ours: tuple[Extension, ...], genuine: Certificate) -> Iterator[Extension]:
    """Put NVIDIA's key identifiers and hosts into our extensions, and leave order and all else as they are."""
    theirs = {extension.oid: extension for extension in genuine.extensions}
    for extension in ours:
        if extension.oid in OF_THE_KEY:
            assert len(extension.value) == len(theirs[extension.oid].value)
            yield replace(extension, value=theirs[extension.oid].value)
        elif b"simulation.invalid" in extension.value:
            urls = [re.findall(rb"http://[!-~]+", e.value) for e in (extension, theirs[extension.oid])]
            assert [urls[0][0].replace(b"simulation.invalid", b"nvidia.com")] == urls[1]
            yield replace(extension, value=theirs[extension.oid].value)
        else:
            yield extension


def require_equal_but_for_key_and_name(ours: NvidiaCertificateTemplate, genuine: Certificate) -> None:
    masked = replace(
        ours,
        serial=genuine.serial,
        issuer=genuine.issuer,
        subject=genuine.subject,
        spki=genuine.spki,
        extensions=tuple(as_genuine(ours.extensions, genuine)),
    )
    assert masked.to_be_signed() == genuine.tbs


def names_alike(ours: bytes, genuine: bytes) -> bool:
    """Compare types and values of the attributes, but for the organisation and numbers."""

    def rows(name: bytes) -> list[tuple[str, str, str]]:
        found = x509.load_der_x509_certificate(name).subject
        # The kind of string is told nowhere else.
        return [(a.oid.dotted_string, a._type.name, str(a.value)) for a in found]  # noqa: SLF001

    left, right = rows(ours), rows(genuine)
    comparable = {"2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8"}
    return [(o, t, v if o in comparable else "") for o, t, v in left] == [
        (o, t, v if o in comparable else "") for o, t, v in right
    ]


@pytest.mark.parametrize("architecture", ["hopper", "ls10"])
def test_a_device_chain_is_nvidias_byte_by_byte_but_for_keys_and_names(
    vectors_dir: Path, architecture: Architecture
) -> None:
    _, genuine = recorded.device(vectors_dir, RECORDED[architecture])
    device, product = keys(architecture), PRODUCTS[architecture]
    ours = (
        device.leaf_template(),
        device.device_template(),
        provisioner_authority(product).template,
        identity_authority(product).template,
        DEVICE_ROOT.template,
    )
    for template, certificate in zip(ours, genuine, strict=True):
        require_equal_but_for_key_and_name(template, certificate)


@pytest.mark.parametrize("architecture", ["hopper", "ls10"])
def test_names_have_nvidias_attributes_in_nvidias_order(vectors_dir: Path, architecture: Architecture) -> None:
    _, genuine = recorded.device(vectors_dir, RECORDED[architecture])
    ours = keys(architecture).certificates()
    for mine, certificate in list(zip(ours, genuine, strict=True))[:-1]:
        assert names_alike(mine, certificate.der)
        assert SIMULATED_NVIDIA in parse_certificate(mine).subject.decode("latin-1")


def test_the_rim_chain_is_nvidias_byte_by_byte_but_for_keys_names_and_dates(vectors_dir: Path) -> None:
    text = (recorded.nvidia(vectors_dir) / "gh100-550.90.07" / "driver-rim-other-version.xml").read_text()
    embedded = re.findall(r"<ds:X509Certificate>([^<]*)<", text)
    genuine = [parse_certificate(b64decode(found)) for found in embedded]
    product = PRODUCTS["hopper"]
    templates = (
        rim_signer_template(product, ISSUED),
        reference_issuer(product).template,
        reference_authority(product).template,
        RIM_ROOT.template,
    )
    for template, certificate in zip(templates, genuine, strict=True):
        dated = replace(template, not_before=certificate.not_before, not_after=certificate.not_after)
        require_equal_but_for_key_and_name(dated, certificate)
    for mine, certificate in list(zip(rim_signer_certificates(product, ISSUED), genuine, strict=True))[:-1]:
        assert names_alike(mine, certificate.der)


def links(ders: tuple[bytes, ...]) -> None:
    """Verify every link, the root's own included, with a library that is not ours."""
    loaded = [x509.load_der_x509_certificate(der) for der in ders]
    for certificate, issuer in pairwise([*loaded, loaded[-1]]):
        certificate.verify_directly_issued_by(issuer)
        key = issuer.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP384R1)
        key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA384()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chains_hold_link_by_link(architecture: Architecture) -> None:
    links(keys(architecture).certificates())
    links(rim_signer_certificates(PRODUCTS[architecture], ISSUED))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_leaf_signs_data_and_everything_above_it_certificates(architecture: Architecture) -> None:
    leaf, *above = (x509.load_der_x509_certificate(der) for der in keys(architecture).certificates())
    assert not any(e.oid == ExtensionOID.BASIC_CONSTRAINTS for e in leaf.extensions)
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_cert_sign) == (True, False)
    for authority in above:
        constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
        assert (constraints.ca, constraints.path_length) == (True, None)
        assert authority.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert all(c.not_valid_after_utc == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) for c in (leaf, *above))


@pytest.mark.parametrize(("architecture", "byte"), [("hopper", 0x41), ("blackwell", 0x41), ("ls10", 0x50)])
def test_the_device_certificate_is_numbered_by_type_and_pdi(architecture: Architecture, byte: int) -> None:
    device = keys(architecture)
    found = x509.load_der_x509_certificate(device.certificates()[1])
    (serial,) = found.subject.get_attributes_for_oid(x509.NameOID.SERIAL_NUMBER)
    assert found.serial_number.to_bytes(9, "big") == bytes([byte]) + device.pdi
    assert serial.value == f"{found.serial_number:018X}"


def test_a_leaf_is_numbered_by_its_key_and_another_driver_branch_makes_another_leaf() -> None:
    device = keys("hopper")
    leaf = x509.load_der_x509_certificate(device.certificates()[0])
    identifier = leaf.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert leaf.serial_number == int.from_bytes(identifier, "big") & ((1 << 159) - 1)
    newer = replace(device, fwid=firmware_id(device.product, "590.12"))
    assert newer.certificates()[0] != device.certificates()[0]
    assert newer.certificates()[1:] == device.certificates()[1:]
    assert firmware_id(device.product, "590.12") == firmware_id(device.product, "590.99.03")


def test_the_leaf_names_the_firmware_and_the_key_above_it() -> None:
    device = keys("hopper")
    value = device.fwid_extension().value
    assert (len(value), value[-48:]) == (189, device.fwid)
    assert spki_of(device.device_key()) in value


def test_blackwells_extension_names_vendor_model_and_two_digests() -> None:
    device = keys("blackwell")
    extension = device.fwid_extension()
    assert extension.oid == DICE_TCB_INFO
    for text in (b"\x80\x06NVIDIA", b"\x81\x0dGB100 A01 GSP", b"\x82\x0201", b"\x87\x05\x00\x80\x00\x00\x01"):
        assert text in extension.value
    assert extension.value.index(device.fwid) < extension.value.index(bytes(48))
    assert any(e.oid == "1.3.6.1.5.5.7.1.1" for e in device.device_template().extensions)


@pytest.mark.parametrize(
    ("root", "role"),
    [(DEVICE_ROOT, "nvidia-device-root"), (RIM_ROOT, "nvidia-rim-root")],
    ids=lambda value: str(value)[:12],
)
def test_the_roots_are_pinned_for_the_simulation_alone(root: Authority, role: AnchorRole) -> None:
    pin = sha256(spki_of(root.key)).digest()
    anchor = TrustAnchors.simulation().pinned(pin, role=role)
    assert anchor is not None
    assert (anchor.simulated, anchor.name) == (True, root.common_name)
    assert TrustAnchors.vendors().pinned(pin, role=role) is None
    assert "SIMULATED" in root.common_name


def test_every_authority_is_there_once_and_says_what_it_is() -> None:
    found = issuing_authorities()
    assert len({authority.common_name for authority in found}) == len(found) == 2 + 2 + 3 + 3 + 3
    assert len({authority.template.serial for authority in found}) == len(found)
    for authority in found:
        assert SIMULATED_NVIDIA.encode() in authority.subject
        assert parse_certificate(authority.certificate()).as_issuer() == authority.as_issuer()


def test_pem_is_read_back() -> None:
    ders = keys("hopper").certificates()
    text = pem_bytes(ders)
    assert tuple(der for _, der in pem_blocks(text)) == ders
    assert tuple(c.public_bytes(Encoding.DER) for c in x509.load_pem_x509_certificates(text)) == ders
    assert max(map(len, text.splitlines())) == 64
