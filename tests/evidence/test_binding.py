"""The binding: one hash over purpose, role, audience, nonce, key, devices and init data, and nothing else."""

import contextlib
from dataclasses import replace
from hashlib import sha256, sha512

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import cbor_bytes
from attest.errors import BindingError, EvidenceError
from attest.evidence.binding import (
    MAX_BINDING_BYTES,
    MAX_DEVICES,
    MAX_TEXT_CHARACTERS,
    Binding,
    ExpectedBinding,
    parse_binding,
)

EXAMPLE = Binding(
    context="kms-release/v1",
    role="workload",
    audience="kms.example+1a2b3c4d+AQID",
    nonce=bytes(range(32)),
    key=b"\x00\x20" + bytes(range(32)),
    devices=(b"\x01" * 48, b"\x02" * 48),
    init_data=b"\x03" * 32,
)
EXPECTED = ExpectedBinding(context=EXAMPLE.context, role=EXAMPLE.role, audience=EXAMPLE.audience, nonce=EXAMPLE.nonce)
CHANGES: list[dict[str, object]] = [
    {"context": "kms-release/v2"},
    {"role": "service"},
    {"audience": "kms.example+1a2b3c4d+AQIE"},
    {"nonce": bytes(31) + b"\x01"},
    {"key": b"\x00\x20" + bytes(32)},
    {"devices": ()},
    {"devices": (b"\x02" * 48, b"\x01" * 48)},
    {"devices": (b"\x01" * 48, b"\x02" * 48, b"\x02" * 48)},
    {"init_data": None},
    {"init_data": b"\x03" * 33},
]


def changed(**members: object) -> bytes:
    """The example's map with members replaced, dropped (by ...), or added."""
    document = cbor2.loads(EXAMPLE.to_bytes()) | members
    return cbor_bytes({name: value for name, value in document.items() if value is not ...})


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_binding(data)
    return caught.value


# -- known answers, by another CBOR writer


def test_report_data_is_the_hash_that_another_writer_computes() -> None:
    document = {
        "key": EXAMPLE.key,
        "role": "workload",
        "nonce": bytes(range(32)),
        "context": "kms-release/v1",
        "devices": [b"\x01" * 48, b"\x02" * 48],
        "audience": "kms.example+1a2b3c4d+AQID",
        "init_data": b"\x03" * 32,
    }
    encoded = cbor2.dumps(document, canonical=True)
    assert EXAMPLE.to_bytes() == encoded
    assert EXAMPLE.report_data() == sha512(b"attest binding v1\0" + encoded).digest()
    assert EXAMPLE.report_data().hex() == (
        "8db15869f287496465fb6c01df8b27cd27d93b70a5c1aa28f943c609b9de2bf1"
        "a334356b6e973ae1e6dddf5cb359c3e0daa9faca7e1ccda1743a65f8ce96a6a0"
    )


def test_the_nonce_of_the_gpus_is_the_hash_that_another_writer_computes() -> None:
    encoded = cbor2.dumps(["kms-release/v1", "kms.example+1a2b3c4d+AQID", bytes(range(32))])
    assert EXAMPLE.gpu_nonce() == sha256(b"attest gpu nonce v1\0" + encoded).digest()
    assert EXAMPLE.gpu_nonce().hex() == "2d2daef97518783a26fbe4ac7e1f112a835ee9c274ca75486386445aba0954bf"


@pytest.mark.parametrize("members", CHANGES)
def test_every_member_changes_the_report_data(members: dict[str, object]) -> None:
    assert replace(EXAMPLE, **members).report_data() != EXAMPLE.report_data()  # type: ignore[arg-type]  # its members


def test_no_two_changes_lead_to_the_same_report_data() -> None:
    bindings = [EXAMPLE, *(replace(EXAMPLE, **members) for members in CHANGES)]  # type: ignore[arg-type]  # its members
    assert len({binding.report_data() for binding in bindings}) == len(bindings)


@pytest.mark.parametrize(("name", "matters"), [("context", True), ("audience", True), ("role", False)])
def test_the_nonce_of_the_gpus_depends_on_purpose_and_party(name: str, matters: bool) -> None:
    other = replace(EXAMPLE, **{name: "other"})  # type: ignore[arg-type]  # a member of text
    assert (other.gpu_nonce() != EXAMPLE.gpu_nonce()) is matters


def test_the_nonce_of_the_gpus_depends_on_the_nonce_and_on_no_device() -> None:
    assert replace(EXAMPLE, nonce=bytes(32)).gpu_nonce() != EXAMPLE.gpu_nonce()
    assert replace(EXAMPLE, devices=(), key=b"x", init_data=None).gpu_nonce() == EXAMPLE.gpu_nonce()


# -- reading


@pytest.mark.parametrize("binding", [EXAMPLE, replace(EXAMPLE, devices=(), init_data=None)])
def test_a_binding_reads_as_it_was_written(binding: Binding) -> None:
    assert parse_binding(binding.to_bytes()) == binding


@pytest.mark.parametrize("name", sorted(Binding.__dataclass_fields__))
def test_a_missing_member_is_refused_by_name(name: str) -> None:
    error = refused(changed(**{name: ...}))
    assert (error.code, error.exit_code) == ("binding-malformed", 3)
    assert error.message.endswith(f"missing or unknown: {name!r}")


def test_an_unknown_member_is_refused_by_name() -> None:
    assert refused(changed(extra=1)).message.endswith("missing or unknown: 'extra'")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"context": ""}, "context: expected 1 to 512 printable characters"),
        ({"context": b"kms"}, "context: expected"),
        ({"context": "a\nb"}, "context: expected"),
        ({"context": "x" * (MAX_TEXT_CHARACTERS + 1)}, "context: expected"),
        ({"role": None}, "role: expected"),
        ({"audience": 1}, "audience: expected"),
        ({"nonce": bytes(31)}, "nonce: expected a byte string of 32 to 32 bytes"),
        ({"nonce": bytes(33)}, "nonce: expected"),
        ({"nonce": "x" * 32}, "nonce: expected"),
        ({"nonce": None}, "nonce: expected"),
        ({"key": b""}, "key: expected a byte string of 1 to 4096 bytes"),
        ({"key": bytes(4097)}, "key: expected"),
        ({"devices": None}, "devices: expected an array of at most 32 digests"),
        ({"devices": b""}, "devices: expected an array"),
        ({"devices": [bytes(47)]}, "devices: expected a byte string of 48 to 48 bytes"),
        ({"devices": ["x"]}, "devices: expected a byte string"),
        ({"devices": [bytes(48)] * (MAX_DEVICES + 1)}, "devices: expected an array"),
        ({"init_data": b""}, "init_data: expected a byte string of 32 to 64 bytes"),
        ({"init_data": bytes(31)}, "init_data: expected"),
        ({"init_data": bytes(65)}, "init_data: expected"),
        ({"init_data": False}, "init_data: expected"),
    ],
)
def test_a_member_of_another_kind_or_size_is_refused(members: dict[str, object], problem: str) -> None:
    error = refused(changed(**members))
    assert error.code == "binding-malformed"
    assert problem in error.message


@pytest.mark.parametrize(
    "members",
    [
        {"context": "x" * MAX_TEXT_CHARACTERS},
        {"key": b"x"},
        {"key": bytes(4096)},
        {"devices": [bytes(48)] * MAX_DEVICES},
        {"init_data": bytes(32)},
        {"init_data": bytes(64)},
    ],
)
def test_a_member_at_its_limit_is_accepted(members: dict[str, object]) -> None:
    assert parse_binding(changed(**members)).to_bytes() == changed(**members)


@pytest.mark.parametrize("data", [b"", b"\xa1", cbor2.dumps({"aa": 2, "b": 1}), EXAMPLE.to_bytes() + b"\0"])
def test_another_encoding_is_refused(data: bytes) -> None:
    assert refused(data).code == "cbor-invalid"


@pytest.mark.parametrize("value", [None, [], "binding", 1, {}])
def test_anything_but_the_map_is_refused(value: object) -> None:
    assert refused(cbor2.dumps(value)).code == "binding-malformed"


def test_too_large_a_binding_is_refused_unread() -> None:
    error = refused(bytes(MAX_BINDING_BYTES + 1))
    assert (error.code, "16385 bytes" in error.message) == ("binding-malformed", True)
    assert refused(bytes(MAX_BINDING_BYTES)).code == "cbor-invalid"


@given(
    st.builds(
        Binding,
        context=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20),
        role=st.sampled_from(["workload", "service"]),
        audience=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20),
        nonce=st.binary(min_size=32, max_size=32),
        key=st.binary(min_size=1, max_size=80),
        devices=st.lists(st.binary(min_size=48, max_size=48), max_size=4).map(tuple),
        init_data=st.none() | st.binary(min_size=32, max_size=64),
    )
)
def test_any_binding_reads_as_it_was_written(binding: Binding) -> None:
    assert parse_binding(binding.to_bytes()) == binding


@given(st.binary(max_size=64))
def test_any_bytes_are_a_binding_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_binding(data).to_bytes() == data


# -- what a Relying Party demands


def test_the_binding_that_was_asked_for_is_accepted() -> None:
    EXPECTED.require(EXAMPLE)
    EXPECTED.require(replace(EXAMPLE, key=b"another key", devices=(), init_data=None))


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"context": "channel/v1"}, "binding-context-mismatch"),
        ({"role": "service"}, "binding-role-mismatch"),
        ({"audience": "kms.example"}, "binding-audience-mismatch"),
        ({"nonce": bytes(32)}, "nonce-mismatch"),
        ({"nonce": b""}, "nonce-mismatch"),
    ],
)
def test_a_binding_for_something_else_is_refused(members: dict[str, object], code: str) -> None:
    with pytest.raises(BindingError) as caught:
        EXPECTED.require(replace(EXAMPLE, **members))  # type: ignore[arg-type]  # its members
    (name,) = members
    assert (caught.value.code, caught.value.field) == (code, f"binding.{name}")
    assert caught.value.exit_code == 4
