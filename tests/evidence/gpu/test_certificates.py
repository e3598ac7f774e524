"""What NVIDIA's device certificates say, and what must not be taken for one of them."""

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.x509 import Certificate, Extension, parse_certificate, pem_blocks
from attest.errors import AttestError, ChainError, UnsupportedError
from attest.evidence.gpu.certificates import (
    DeviceIdentity,
    is_leaf,
    read_identity,
    read_leaf,
    read_model,
    require_p384,
)
from attest_simulator import der
from tests.endorsements.made import AUTHORITY, CA_CONSTRAINTS, certificate, spki
from tests.evidence.gpu import made
from tests.evidence.gpu.made_chain import (
    BLACKWELL,
    COMPOSITE,
    DEVICE_KEY,
    DIGITAL_SIGNATURE,
    FWID,
    P256_KEY,
    SERIAL,
    TCB_INFO,
    MadeDevice,
    composite,
    fwid_value,
    implicit,
    name,
    tcb_info,
)


def leaf(*extensions: Extension, **more: object) -> Certificate:
    return parse_certificate(certificate(extensions=extensions, **more))  # type: ignore[arg-type]  # the test's keywords


def device(common_name: str, *serials: str, serial: int = SERIAL) -> Certificate:
    return parse_certificate(certificate(subject=name(common_name, *serials), serial=serial))


def usage(*octets: int) -> Extension:
    return Extension(oid="2.5.29.15", critical=True, value=der.bit_string(bytes(octets)))


# -- the leaf


def test_the_leaf_of_a_hopper_gpu_carries_its_firmware_id_and_the_key_of_its_device() -> None:
    found = read_leaf(leaf(DIGITAL_SIGNATURE, composite()))
    assert (found.fwid, found.device_key) == (FWID, spki(DEVICE_KEY))


def test_the_leaf_of_a_blackwell_gpu_carries_the_first_of_two_firmware_ids_and_no_key() -> None:
    found = read_leaf(BLACKWELL.certificates()[0])
    assert (found.fwid, found.device_key) == (FWID, None)


TRUNCATED = composite().value[:-1]
BROKEN = {
    "no firmware id": (DIGITAL_SIGNATURE,),
    "two firmware ids": (DIGITAL_SIGNATURE, composite(), tcb_info(fwid_value())),
    "another version": (DIGITAL_SIGNATURE, composite(version=2)),
    "another digest": (DIGITAL_SIGNATURE, composite(algorithm="2.16.840.1.101.3.4.2.1")),
    "a short digest": (DIGITAL_SIGNATURE, composite(FWID[:-1])),
    "a long digest": (DIGITAL_SIGNATURE, composite(FWID + b"\0")),
    "another member": (DIGITAL_SIGNATURE, composite(after=der.integer(1))),
    "a cut": (DIGITAL_SIGNATURE, Extension(oid=COMPOSITE, critical=False, value=TRUNCATED)),
    "a byte more": (DIGITAL_SIGNATURE, Extension(oid=COMPOSITE, critical=False, value=composite().value + b"\0")),
    "an empty list": (DIGITAL_SIGNATURE, tcb_info()),
    "no list": (DIGITAL_SIGNATURE, Extension(oid=TCB_INFO, critical=False, value=der.sequence(implicit(0, b"N")))),
    "no DER": (DIGITAL_SIGNATURE, Extension(oid=TCB_INFO, critical=False, value=b"NVIDIA")),
    "the other one's content": (DIGITAL_SIGNATURE, Extension(oid=TCB_INFO, critical=False, value=composite().value)),
    "first of two too short": (DIGITAL_SIGNATURE, tcb_info(fwid_value(b""), fwid_value())),
    "a CA": (DIGITAL_SIGNATURE, composite(), CA_CONSTRAINTS),
    "not said to be no CA": (
        DIGITAL_SIGNATURE,
        composite(),
        Extension(oid="2.5.29.19", critical=True, value=der.sequence()),
    ),
    "no usage": (composite(),),
    "an empty usage": (usage(), composite()),
    "signs certificates only": (usage(0x04), composite()),
    "signs certificates too": (usage(0x84), composite()),
    "usage of another kind": (Extension(oid="2.5.29.15", critical=True, value=der.integer(1)), composite()),
}


@pytest.mark.parametrize("extensions", BROKEN.values(), ids=BROKEN.keys())
def test_a_leaf_that_is_not_in_the_shape_of_nvidias_is_refused(extensions: tuple[Extension, ...]) -> None:
    with pytest.raises(ChainError) as refusal:
        read_leaf(leaf(*extensions))
    assert refusal.value.code == "gpu-leaf-malformed"
    assert refusal.value.expected
    assert refusal.value.got


def test_a_key_of_another_curve_signs_no_report() -> None:
    for key in (P256_KEY,):
        with pytest.raises(ChainError) as refusal:
            read_leaf(leaf(DIGITAL_SIGNATURE, composite(), key=key))
        assert refusal.value.code == "public-key-invalid"
        with pytest.raises(ChainError):
            require_p384(leaf(*AUTHORITY, key=key))


def test_only_a_certificate_with_a_firmware_id_is_taken_for_a_leaf() -> None:
    chain = MadeDevice().certificates()
    assert [is_leaf(c) for c in chain] == [True, False, False, False, False]
    assert is_leaf(BLACKWELL.certificates()[0])


def outcome(extension: Extension) -> str:
    try:
        return f"{len(read_leaf(leaf(DIGITAL_SIGNATURE, extension)).fwid)} bytes"
    except AttestError as exc:
        return exc.code


@given(st.sampled_from((COMPOSITE, TCB_INFO)), st.binary(max_size=300))
def test_any_bytes_in_the_extension_give_a_firmware_id_or_a_refusal(oid: str, value: bytes) -> None:
    assert outcome(Extension(oid=oid, critical=False, value=value)) in ("48 bytes", "gpu-leaf-malformed")


@given(st.data())
def test_any_change_of_the_extension_gives_another_content_or_a_refusal(data: st.DataObject) -> None:
    good = data.draw(st.sampled_from((composite(), tcb_info(fwid_value(), fwid_value(bytes(48))))))
    value = bytearray(good.value)
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    changed = Extension(oid=good.oid, critical=False, value=bytes(value))
    assert outcome(changed) in ("48 bytes", "gpu-leaf-malformed")


# -- the device


def test_the_subject_of_the_device_names_its_type_and_its_pdi() -> None:
    identity = read_identity(device("GH100 A01 GSP BROM", f"{SERIAL:X}"))
    assert identity == DeviceIdentity(type_byte=0x41, pdi=bytes.fromhex("AABBCCDDEEFF0011"))
    assert identity.text == "41aabbccddeeff0011"
    assert read_identity(device("GH100 A01 GSP BROM", f"{SERIAL:x}")) == identity


@pytest.mark.parametrize(
    "serials",
    [
        (),
        (f"{SERIAL:X}", f"{SERIAL:X}"),
        (f"{SERIAL + 1:X}",),
        (f"0{SERIAL:X}",),
        (f"{SERIAL:X}"[:-2],),
        (f"+{SERIAL:X}"[:18],),
        ("41 ABBCCDDEEFF0011",),
    ],
)
def test_a_device_without_one_serial_number_that_is_its_certificates_is_refused(serials: tuple[str, ...]) -> None:
    with pytest.raises(ChainError) as refusal:
        read_identity(device("GH100 A01 GSP BROM", *serials))
    assert refusal.value.code == "gpu-identity-malformed"


@pytest.mark.parametrize(
    ("common_name", "type_byte", "expected"),
    [
        ("GH100 A01 GSP BROM", 0x41, ("nvidia-gpu", "hopper", "GH100")),
        ("GB100 A01 GSP BROM", 0x41, ("nvidia-gpu", "blackwell", "GB100")),
        ("GB202 A01 GSP BROM", 0x41, ("nvidia-gpu", "blackwell", "GB202")),
        ("LS_10 A01 FSP BROM", 0x50, ("nvidia-switch", "ls10", "LS10")),
    ],
)
def test_type_byte_and_name_together_say_what_a_device_is(
    common_name: str, type_byte: int, expected: tuple[str, str, str]
) -> None:
    model = read_model(device(common_name), DeviceIdentity(type_byte=type_byte, pdi=bytes(8)))
    assert (model.kind, model.architecture, model.product) == expected


@pytest.mark.parametrize(
    ("common_name", "type_byte"),
    [
        ("GH100 A01 GSP BROM", 0x50),
        ("LS_10 A01 FSP BROM", 0x41),
        ("GH200", 0x41),
        ("GR100 A01 GSP BROM", 0x41),
        ("NVIDIA GH100 Provisioner ICA 1", 0x41),
        ("GH100 A01 GSP BROM", 0x42),
    ],
)
def test_a_device_of_no_known_kind_is_unsupported(common_name: str, type_byte: int) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        read_model(device(common_name), DeviceIdentity(type_byte=type_byte, pdi=bytes(8)))
    assert (refusal.value.code, refusal.value.exit_code) == ("gpu-device-unsupported", 3)


def test_a_device_without_one_common_name_is_unsupported() -> None:
    twice = parse_certificate(certificate(subject=made_name_twice()))
    with pytest.raises(UnsupportedError):
        read_model(twice, DeviceIdentity(type_byte=0x41, pdi=bytes(8)))


def made_name_twice() -> bytes:
    one = name("GH100 A01 GSP BROM")
    return der.sequence(one[2:], one[2:])


# -- recorded certificates


@pytest.mark.parametrize("folder", made.REPORTS)
def test_recorded_chains_name_leaf_and_device(vectors_dir: Path, folder: str) -> None:
    facts = made.facts(vectors_dir, f"{folder}/chain.pem")
    pem = (vectors_dir / "nvidia" / folder / "chain.pem").read_bytes()
    chain = [parse_certificate(block) for _, block in pem_blocks(pem)]
    found, identity = read_leaf(chain[0]), read_identity(chain[1])
    assert found.device_key == chain[1].spki
    assert str(chain[0].serial) == facts["leaf_serial_decimal"]
    assert identity.text.upper() == facts["l4_serial_hex"]
    assert read_model(chain[1], identity).architecture == "hopper"


def test_recorded_switches_are_switches(vectors_dir: Path) -> None:
    for item in made.board(vectors_dir, "switch"):
        chain = [parse_certificate(block) for _, block in pem_blocks(base64.b64decode(item["certificate"]))]
        model = read_model(chain[1], read_identity(chain[1]))
        assert (model.kind, model.product) == ("nvidia-switch", "LS10")
        assert read_leaf(chain[0]).device_key == chain[1].spki
