"""The PCK certificate: its extension is whole and of one meaning, or it is malformed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import intel_name
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.endorsements.x509 import parse_certificate
from attest.errors import AttestError, ChainError, EvidenceError
from attest.evidence.intel.authenticity import pck_candidates
from attest.evidence.intel.pck import PckCertificate, SgxType, read_pck
from attest.evidence.intel.quote import parse_quote
from attest_simulator import der
from tests.evidence.intel.made_quotes import (
    CA_NAME,
    COMPONENTS,
    PROCESSOR_NAME,
    SGX,
    certificate,
    members,
    pck,
    sgx_members,
    tcb_members,
)
from tests.evidence.intel.recorded import RECORDED, Recorded


def read(value: bytes | None = None, *, issuer: bytes = CA_NAME) -> PckCertificate:
    return read_pck(parse_certificate(pck(value, issuer=issuer)))


def refused(value: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        read(value)
    error = caught.value
    assert (error.code, error.exit_code) == ("pck-malformed", 3)
    assert error.field
    assert error.expected
    assert error.got
    return error


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_certificate_says_what_its_manifest_says(vector: Recorded, vectors_dir: Path) -> None:
    (found,) = pck_candidates(parse_quote(vector.read(vectors_dir)), NO_ENDORSEMENTS, at=vector.times[0])
    said = vector.facts["pck"]
    configuration = said["configuration"] or {}
    assert found.certificate.common_name == said["subject_cn"]
    assert found.certificate.issuer_common_name == said["issuer_cn"]
    assert found.ca == ("platform" if "Platform" in said["issuer_cn"] else "processor")
    assert found.certificate.serial == int(said["serial_hex"], 16)
    assert list(found.component_svns) == said["comp_svns"]
    assert (found.cpu_svn.hex(), found.pce_svn, found.pce_id.hex()) == (said["cpu_svn"], said["pce_svn"], said["pceid"])
    assert (found.fmspc.hex(), found.ppid.hex(), found.sgx_type) == (said["fmspc"], said["ppid"], said["sgx_type"])
    instance = found.platform_instance_id
    assert (instance.hex() if instance is not None else None) == said["platform_instance_id"]
    assert found.dynamic_platform == configuration.get("dynamic_platform")
    assert found.cached_keys == configuration.get("cached_keys")
    assert found.smt_enabled == configuration.get("smt_enabled")
    assert found.unknown_members == ()


def test_a_platform_certificate_is_read_whole() -> None:
    found = read()
    assert found.ca == "platform"
    assert found.ppid == bytes(range(16))
    assert found.component_svns == COMPONENTS
    assert found.cpu_svn == bytes(COMPONENTS)
    assert (found.pce_svn, found.pce_id, found.fmspc.hex()) == (13, b"\0\1", "50806f000000")
    assert found.sgx_type is SgxType.SCALABLE
    assert found.platform_instance_id == bytes(range(16, 32))
    assert (found.dynamic_platform, found.cached_keys, found.smt_enabled) == (True, False, True)


def test_a_processor_certificate_has_no_instance_and_no_configuration() -> None:
    found = read(members(sgx_members(m6=None, m7=None)), issuer=PROCESSOR_NAME)
    assert found.ca == "processor"
    assert found.platform_instance_id is None
    assert (found.dynamic_platform, found.cached_keys, found.smt_enabled) == (None, None, None)


def test_a_configuration_may_leave_members_out() -> None:
    found = read(members(sgx_members(m7=members({".7.3": b"\x01\x01\x00"}))))
    assert (found.dynamic_platform, found.cached_keys, found.smt_enabled) == (None, None, False)


def test_members_that_are_not_known_are_listed_and_ignored() -> None:
    pairs = sgx_members(m8=der.TRUE, m2=members(tcb_members(m19=der.integer(4))))
    pairs[".7"] = members({".7.9": der.NULL})
    assert read(members(pairs)).unknown_members == (".2.19", ".7.9", ".8")


def test_the_order_of_members_has_no_meaning() -> None:
    tcb = members(dict(reversed(tcb_members().items())))
    found = read(members(dict(reversed(sgx_members(m2=tcb).items()))))
    assert found.component_svns == COMPONENTS


@pytest.mark.parametrize("number", range(1, 19))
def test_each_member_of_the_tcb_is_required_exactly_once(number: int) -> None:
    pairs = tcb_members()
    name = f".2.{number}"
    value = pairs[name]
    assert value is not None
    refused(members(sgx_members(m2=members(pairs | {name: None}))))
    twice = der.sequence(der.object_identifier(SGX + name), value)
    whole = members(pairs)
    body = whole[4 if whole[1] == 0x82 else 3 :]
    assert "twice" in (refused(members(sgx_members(m2=der.sequence(body, twice)))).got or "")


@pytest.mark.parametrize("number", range(1, 6))
def test_each_member_of_the_extension_is_required(number: int) -> None:
    refused(members(sgx_members(**{f"m{number}": None})))


def test_a_member_of_the_extension_that_stands_twice_is_refused() -> None:
    one = der.sequence(der.object_identifier(f"{SGX}.4"), der.octet_string(bytes(6)))
    body = members(sgx_members())[4:]
    assert "twice" in (refused(der.sequence(body, one)).got or "")
    flag = der.sequence(der.object_identifier(f"{SGX}.7.1"), der.TRUE)
    refused(members(sgx_members(m7=der.sequence(flag, flag))))


@pytest.mark.parametrize(
    "changed",
    [
        {"m1": der.octet_string(bytes(15))},
        {"m1": der.octet_string(bytes(17))},
        {"m1": der.integer(5)},
        {"m2": der.integer(5)},
        {"m2": der.NULL},
        {"m2": der.sequence(der.integer(5))},
        {"m2": der.sequence()},
        {"m3": der.octet_string(bytes(3))},
        {"m4": der.octet_string(b"")},
        {"m5": der.integer(1)},
        {"m5": b"\x0a\x01\x03"},
        {"m5": b"\x0a\x00"},
        {"m5": b"\x0a\x02\x00\x01"},
        {"m6": der.octet_string(bytes(15))},
        {"m7": der.TRUE},
        {"m7": members({".7.1": der.integer(1)})},
        {"m7": members({".7.1": b"\x01\x01\x01"})},
    ],
)
def test_a_member_of_another_kind_or_size_is_refused(changed: dict[str, bytes]) -> None:
    refused(members(sgx_members(**changed)))


@pytest.mark.parametrize(
    "changed",
    [
        {"m1": der.integer(256)},
        {"m1": der.integer(-1)},
        {"m1": der.integer(1 << 80)},
        {"m1": der.octet_string(b"\3")},
        {"m1": der.integer(4)},
        {"m17": der.integer(65536)},
        {"m17": der.integer(-1)},
        {"m17": der.octet_string(b"\3")},
        {"m18": der.octet_string(bytes(15))},
        {"m18": der.octet_string(bytes(16))},
        {"m18": der.integer(5)},
    ],
)
def test_an_svn_out_of_range_or_at_odds_with_cpusvn_is_refused(changed: dict[str, bytes]) -> None:
    refused(members(sgx_members(m2=members(tcb_members(**changed)))))


@pytest.mark.parametrize(
    ("changed", "field", "expected"),
    [
        ({"m5": b"\x02\x02\x00\x01"}, "TCB component 5", "an INTEGER"),
        ({"m16": b"\x02\x00"}, "TCB component 16", "an INTEGER"),
        ({"m3": der.TRUE}, "TCB component 3", "an INTEGER"),
        ({"m3": der.NULL}, "TCB component 3", "an INTEGER"),
        ({"m2": der.integer(256)}, "TCB component 2", "0 to 255"),
        ({"m17": b"\x02\x02\x00\x01"}, "PCESVN", "an INTEGER"),
        ({"m18": der.integer(5)}, "CPUSVN", "an OCTET STRING"),
    ],
)
def test_the_member_of_the_tcb_that_is_wrong_is_named(changed: dict[str, bytes], field: str, expected: str) -> None:
    error = refused(members(sgx_members(m2=members(tcb_members(**changed)))))
    assert (error.field, error.expected) == (field, expected)


def test_a_broken_value_of_a_member_that_is_not_known_is_ignored() -> None:
    found = read(members(sgx_members(m2=members(tcb_members(m19=b"\x02\x02\x00\x01")))))
    assert (found.component_svns, found.unknown_members) == (COMPONENTS, (".2.19",))


@pytest.mark.parametrize("most", [0, 65535])
def test_pcesvn_may_be_any_16_bits(most: int) -> None:
    assert read(members(sgx_members(m2=members(tcb_members(m17=der.integer(most)))))).pce_svn == most


@pytest.mark.parametrize("value", [b"", b"\0", der.NULL, der.sequence(), members(sgx_members()) + b"\0"])
def test_an_extension_that_is_something_else_is_refused(value: bytes) -> None:
    refused(value)


def test_a_member_with_a_tag_of_several_bytes_is_refused() -> None:
    refused(members(sgx_members(m2=b"\x1f\x81\x01\x00")))


def test_a_certificate_without_the_extension_is_refused() -> None:
    with pytest.raises(EvidenceError) as caught:
        read_pck(parse_certificate(certificate()))
    assert (caught.value.code, caught.value.got) == ("pck-malformed", "none")


@pytest.mark.parametrize(
    ("subject", "issuer", "field"),
    [
        (intel_name("Intel SGX PCK Platform CA"), CA_NAME, "subject CN"),
        (intel_name("Intel SGX PCK Certificate "), CA_NAME, "subject CN"),
        (intel_name("Intel SGX PCK Certificate"), intel_name("Intel SGX Root CA"), "issuer CN"),
        (intel_name("Intel SGX PCK Certificate"), intel_name("intel sgx pck platform ca"), "issuer CN"),
        (intel_name("Intel SGX PCK Certificate"), der.sequence(), "issuer CN"),
    ],
)
def test_names_that_are_not_those_of_a_pck_certificate_break_the_chain(
    subject: bytes, issuer: bytes, field: str
) -> None:
    with pytest.raises(ChainError) as caught:
        read_pck(parse_certificate(pck(subject=subject, issuer=issuer)))
    assert (caught.value.code, caught.value.field) == ("pck-name-unexpected", field)


@given(st.binary(max_size=64) | st.builds(lambda at, value: (at, value), st.integers(0, 500), st.integers(0, 255)))
def test_any_extension_is_read_or_refused(change: bytes | tuple[int, int]) -> None:
    value = change
    if isinstance(value, tuple):
        whole = bytearray(members(sgx_members()))
        whole[value[0]] = value[1]
        value = bytes(whole)
    try:
        read(value)
    except AttestError as exc:
        assert exc.code == "pck-malformed"  # noqa: PT017  either outcome is fine


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, SgxType.STANDARD), (1, SgxType.SCALABLE), (2, SgxType.SCALABLE_WITH_INTEGRITY)],
)
def test_each_number_is_its_kind_of_memory_protection(value: int, kind: SgxType) -> None:
    assert read(members(sgx_members(m5=bytes([0x0A, 1, value])))).sgx_type is kind
