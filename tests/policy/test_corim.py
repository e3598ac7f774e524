"""CoRIM as others write it: what is carried, what is left out, and what never matches."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import cbor2
import pytest
from cbor2 import CBORTag
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError, SignatureError
from attest.policy.decoder import RelaxedDemand
from attest.policy.reference_values.corim import MAX_CORIM_BYTES, parse_corim, verify_corim
from attest.policy.reference_values.corim_import import ImportedCorim, references_from_corim
from tests.endorsements.cose_made import CosePrivateKey
from tests.policy.corim_made import AMD, CLASS, INTEL, amd, comid, corim, intel, launch_measurement, signed_corim

AT = datetime(2026, 6, 1, tzinfo=UTC)
A, B, C = bytes([1]) * 48, bytes([2]) * 48, bytes([3]) * 32
KEY: CosePrivateKey = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def imported(data: bytes) -> ImportedCorim:
    """Read and carry over."""
    return references_from_corim(parse_corim(data), at=AT)


def entries(data: bytes) -> dict[str, tuple[str, tuple[bytes, ...]]]:
    """Carry over; kind and values by name."""
    return {name: (entry.kind, entry.values) for name, entry in imported(data).document.entries.items()}


MEASUREMENT = launch_measurement(A)
NO_DIGEST = "no digest of an algorithm that the evidence has"


def test_a_launch_measurement_is_carried_as_digest_or_as_raw_value() -> None:
    assert entries(amd(MEASUREMENT)) == {"image": ("snp-measurement", (A,))}
    assert entries(amd({0: 641, 1: {4: CBORTag(560, A)}})) == {"image": ("snp-measurement", (A,))}
    assert entries(amd({0: 641, 1: {2: [7, A], 4: CBORTag(560, A)}})) == {"image": ("snp-measurement", (A,))}
    assert entries(amd({0: 641, 1: {2: [[1, C], [7, A]]}})) == {"image": ("snp-measurement", (A,))}


def test_values_of_one_tag_are_alternatives_and_other_tags_have_other_names() -> None:
    data = corim(
        comid([CLASS, [MEASUREMENT]], [CLASS, [{0: 641, 1: {2: [[7, B]]}}]]),
        comid([CLASS, [MEASUREMENT]], name=CBORTag(37, bytes(16))),
    )
    assert entries(data) == {"image": ("snp-measurement", (A, B)), "00" * 16: ("snp-measurement", (A,))}


def test_conditions_beside_a_value_are_told_and_not_carried() -> None:
    found = imported(
        amd(
            MEASUREMENT,
            {0: 647, 1: {1: CBORTag(553, 5)}},
            {0: 2, 1: {3: {3: False}}},
            {0: "text", 1: {11: "x"}, 2: [CBORTag(554, "pem")]},
            {1: {0: {0: "1.0"}}},
        )
    )
    assert found.left_out == (
        "comid[0].reference[0].measurement[1]: reported TCB of mkey 647",
        "comid[0].reference[0].measurement[2]: policy of mkey 2",
        "comid[0].reference[0].measurement[3]: who may say so (authorised-by)",
        "comid[0].reference[0].measurement[3]: field 11 of mkey text",
        "comid[0].reference[0].measurement[4]: field 0",
    )


@pytest.mark.parametrize(
    ("measurement", "why"),
    [
        ({0: 641, 1: {2: []}}, NO_DIGEST),
        ({0: 641, 1: {2: [[7, A], [7, A]]}}, "algorithm 7 twice in one list of digests"),
        ({0: 641, 1: {2: [[1, C]]}}, NO_DIGEST),
        ({0: 641, 1: {2: [[7, C]]}}, "a digest of 32 bytes under algorithm 7"),
        ({0: 641, 1: {2: [[True, C]]}}, "a digest that is no pair of algorithm and bytes"),
        ({0: 641, 1: {2: [[7, "x"]]}}, "a digest that is no pair of algorithm and bytes"),
        ({0: 641, 1: {2: 5}}, NO_DIGEST),
        ({0: 641, 1: {4: CBORTag(560, C)}}, "a measurement that does not have 48 bytes"),
        ({0: 641, 1: {4: CBORTag(560, "x")}}, "a measurement that does not have 48 bytes"),
        ({0: 641, 1: {2: [[7, A]], 4: CBORTag(560, B)}}, "two different measurements at once"),
        ({0: 641, 1: {2: [[7, A]], 12: 1}}, "12 is not known"),
        ({0: 641, 1: {2: [[7, A]], 16: 1, 99: 1}}, "16, 99 is not known"),
        ({0: 641, 1: {2: [[7, A]], -83: [7, A]}}, "-83 is not known"),
        ({0: 641, 1: {2: [[7, A]]}, 3: 1}, "a member is not known"),
    ],
)
def test_a_triple_that_never_matches_is_not_carried_and_says_why(measurement: dict[int, Any], why: str) -> None:
    other = comid([CLASS, [{0: 641, 1: {2: [[7, B]]}}]], name="other")
    found = imported(corim(comid([CLASS, [{0: 641, 1: {2: [[7, A]]}}, measurement]]), other))
    assert set(found.document.entries) == {"other"}
    place = "comid[0].reference[0].measurement[1]"
    assert found.left_out == (f"{place}: {why}; this triple is not imported",)


@pytest.mark.parametrize("field", [one for one in range(16) if one not in (2, 4, 5, 12)])
def test_fields_of_the_draft_are_told_by_their_number(field: int) -> None:
    found = imported(amd({0: 641, 1: {2: [[7, A]], field: 1}}))
    assert found.left_out == (f"comid[0].reference[0].measurement[0]: field {field} of mkey 641",)


@pytest.mark.parametrize("field", [-73, -82, -85, -86])
def test_fields_of_intels_profile_are_told_by_their_number(field: int) -> None:
    assert imported(intel({-83: [7, A], field: 1})).left_out == (
        f"comid[0].reference[0].measurement[0]: field {field}",
    )
    with pytest.raises(EvidenceError, match=f"{field - 1000} is not known"):
        imported(intel({-83: [7, A], field - 1000: 1}))


@pytest.mark.parametrize(
    ("key", "meaning"),
    [
        (2, "policy"),
        (6, "current TCB"),
        (7, "platform info"),
        (640, "report data"),
        (645, "report id"),
        (646, "report id of the migration agent"),
        (647, "reported TCB"),
        (3328, "chip id"),
        (3329, "committed TCB"),
        (3330, "current version"),
        (3936, "committed version"),
        (3968, "launch TCB"),
        (1, "field 1"),
        ("policy", "field 1"),
    ],
)
def test_values_of_amds_profile_are_told_by_their_meaning(key: int | str, meaning: str) -> None:
    found = imported(amd(MEASUREMENT, {0: key, 1: {1: 5}}))
    assert found.left_out == (f"comid[0].reference[0].measurement[1]: {meaning} of mkey {key}",)


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (1, "endorsed values"),
        (2, "identity keys"),
        (3, "attestation keys"),
        (4, "dependencies"),
        (5, "memberships"),
        (6, "CoSWID tags"),
        (8, "conditional endorsement series"),
        (10, "conditional endorsements"),
        (7, "triples 7"),
        (9, "triples 9"),
        (11, "triples 11"),
        ("endorsed", "triples endorsed"),
    ],
)
def test_other_triples_are_told_by_their_meaning(number: int | str, meaning: str) -> None:
    found = imported(corim(comid([CLASS, [MEASUREMENT]], others={number: []})))  # type: ignore[dict-item]  # a wrong key
    assert found.left_out == (f"comid[0]: {meaning}",)


def test_a_raw_value_under_a_mask_is_left_out() -> None:
    masked = {0: 641, 1: {4: CBORTag(560, A), 5: A}}
    tagged = {0: 641, 1: {4: CBORTag(563, [A, A])}}
    for measurement in (masked, tagged):
        with pytest.raises(EvidenceError) as caught:
            imported(amd(measurement))
        assert caught.value.code == "corim-empty"


def test_values_of_one_instance_and_other_triples_and_tags_are_told() -> None:
    data = corim(
        comid(
            [CLASS, [MEASUREMENT]],
            [CLASS | {1: CBORTag(560, b"chip")}, [MEASUREMENT]],
            others={1: [], 10: [], 77: []},
            members={3: []},
        ),
        cbor2.dumps(CBORTag(505, {})),
        CBORTag(508, {}),
        dependent=[{}],
    )
    assert imported(data).left_out == (
        "tags[1]: tag 505, which is not a CoMID (506)",
        "tags[2]: tag 508, which is not a CoMID (506)",
        "dependent CoRIMs",
        "comid[0]: linked tags",
        "comid[0]: endorsed values",
        "comid[0]: conditional endorsements",
        "comid[0]: triples 77",
        "comid[0].reference[1]: values of one instance or group",
    )


def test_a_tag_may_stand_around_a_byte_string_or_around_a_map() -> None:
    inner = cbor2.loads(comid([CLASS, [MEASUREMENT]])).value
    for tag in (CBORTag(506, inner), CBORTag(506, cbor2.dumps(inner)), cbor2.dumps(CBORTag(506, cbor2.dumps(inner)))):
        assert entries(corim(tag)) == {"image": ("snp-measurement", (A,))}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({-83: [7, A]}, {"image": ("tdx-mr-td", (A,))}),
        ({-83: [[7, A]]}, {"image": ("tdx-mr-td", (A,))}),
        ({-83: CBORTag(60020, [6, [[7, A], [7, B]]])}, {"image": ("tdx-mr-td", (A, B))}),
        ({-83: [1, C]}, {"image": ("sgx-mr-enclave", (C,))}),
        ({-84: [1, C]}, {"image": ("sgx-mr-signer", (C,))}),
        ({-83: [7, A], -84: [7, bytes(48)]}, {"image": ("tdx-mr-td", (A,))}),
        (
            {14: {0: [[7, A]], "rtmr1": [[7, B]]}},
            {"image": ("tdx-rtmr0", (A,)), "image tdx-rtmr1": ("tdx-rtmr1", (B,))},
        ),
    ],
)
def test_intels_profile_gives_td_enclave_and_registers(values: dict[int, Any], found: dict[str, Any]) -> None:
    assert entries(intel(values)) == found


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({-83: CBORTag(60020, [6, []])}, "an empty set"),
        ({-83: CBORTag(60020, [6, []]), 14: {0: [[7, A]]}}, "an empty set"),
        ({-83: CBORTag(60020, [7, [[7, A]]])}, NO_DIGEST),
        ({-83: CBORTag(60021, [6, [[7, A]]])}, NO_DIGEST),
        ({-83: CBORTag(60010, [2, 5])}, NO_DIGEST),
        ({-83: [[7, A], [7, B]]}, "algorithm 7 twice"),
        ({-83: [[9, b"x"]]}, NO_DIGEST),
        ({14: {}}, "no integrity register"),
        ({14: {4: [[7, A]]}}, "integrity register 4, which a TD does not have"),
        ({14: {-1: [[7, A]]}}, "integrity register -1, which a TD does not have"),
        ({14: {b"0": [[7, A]]}}, "which a TD does not have"),
        ({14: {0: [[1, C]]}}, NO_DIGEST),
        ({-84: [7, A]}, "field -84"),
    ],
)
def test_what_equals_no_quote_is_not_carried(values: dict[int, Any], why: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        imported(intel(values))
    assert (caught.value.code, why in (caught.value.got or "")) == ("corim-empty", True)


@pytest.mark.parametrize("number", range(4))
def test_a_register_is_named_by_its_number_or_its_name(number: int) -> None:
    for name in (number, str(number), f"rtmr{number}", f"RTMR{number}"):
        assert entries(intel({14: {name: [[7, A]]}})) == {"image": (f"tdx-rtmr{number}", (A,))}


def test_the_tdx_module_is_told_from_a_td_and_the_quoting_enclave_is_left_out() -> None:
    assert entries(intel({-83: [7, A]}, {0: {2: "TDX SEAM"}})) == {"image": ("tdx-mr-seam", (A,))}
    assert entries(intel({-83: [7, A]}, {0: "x"})) == {"image": ("tdx-mr-td", (A,))}
    with pytest.raises(EvidenceError, match="field -83"):
        imported(intel({-83: [1, C]}, {0: {2: "TDX QE TCB"}}))


def test_a_profile_that_is_not_known_carries_nothing() -> None:
    for profile in (None, CBORTag(32, "tag:example"), CBORTag(111, b"\x01"), [AMD, AMD]):
        with pytest.raises(EvidenceError) as caught:
            imported(corim(comid([CLASS, [MEASUREMENT]]), profile=profile))
        assert caught.value.code in ("corim-empty", "corim-malformed")
    assert entries(corim(comid([CLASS, [MEASUREMENT]]), profile=[AMD]))


def test_validity_becomes_issue_and_end() -> None:
    tag = comid([CLASS, [MEASUREMENT]])
    document = imported(corim(tag, validity={0: CBORTag(1, 1_700_000_000), 1: CBORTag(1, 1_800_000_000)})).document
    assert document.issued == datetime.fromtimestamp(1_700_000_000, UTC)
    assert document.expires.value == datetime.fromtimestamp(1_800_000_000, UTC)
    document = imported(corim(tag, validity={0: CBORTag(1, 0), 1: CBORTag(1, 253402300799)})).document
    assert document.issued == datetime.fromtimestamp(0, UTC)
    assert document.expires.value == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    document = imported(corim(tag)).document
    assert (document.issued, document.expires.value) == (AT, RelaxedDemand(reason="the CoRIM has no expiry"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        cbor2.dumps({}),
        cbor2.dumps(CBORTag(500, {})),
        cbor2.dumps(CBORTag(501, [])),
        cbor2.dumps(CBORTag(18, [b"", {}, b""])),
        corim(),
        corim(5),
        corim(b"\x05"),
        corim(cbor2.dumps(CBORTag(506, 5))),
        corim(cbor2.dumps(CBORTag(506, {4: {}}))),
        corim(cbor2.dumps(CBORTag(506, {1: {}}))),
        corim(cbor2.dumps(CBORTag(506, {1: {}, 4: {0: {}}}))),
        corim(comid(5)),
        corim(comid([CLASS])),
        corim(comid([CLASS, []])),
        corim(comid([CLASS, [5]])),
        corim(comid([CLASS, [{0: 641}]])),
        corim(comid(*[[CLASS, [MEASUREMENT]]] * 5_001)),
        intel({14: 5}),
        corim(comid([CLASS, [MEASUREMENT]]), profile=5),
        corim(comid([CLASS, [MEASUREMENT]]), validity=5),
        corim(comid([CLASS, [MEASUREMENT]]), validity={1: 5}),
        corim(comid([CLASS, [MEASUREMENT]]), validity={1: CBORTag(1, "x")}),
        corim(comid([CLASS, [MEASUREMENT]]), validity={1: CBORTag(1, True)}),
        corim(comid([CLASS, [MEASUREMENT]]), validity={1: CBORTag(1, -1)}),
        corim(comid([CLASS, [MEASUREMENT]]), validity={1: CBORTag(1, 253402300800)}),
        bytes(MAX_CORIM_BYTES + 1),
    ],
    ids=range(28),
)
def test_what_is_no_corim_is_refused(data: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        imported(data)
    assert caught.value.code in ("corim-malformed", "cbor-invalid")


def test_ids_of_other_kinds_become_text() -> None:
    tag = comid([CLASS, [MEASUREMENT]], name=b"")
    for said, name in ((CBORTag(37, bytes(16)), "00" * 16), ("", "without a name"), (5, "without a name")):
        found = imported(corim(tag, id=said)).document
        assert found.name == name
        assert set(found.entries) == {"comid[0]"}


# -- signed


def signed(header: dict[int, Any], payload: bytes | None = None) -> bytes:
    """Sign a CoRIM under any header."""
    return signed_corim(amd(MEASUREMENT) if payload is None else payload, KEY, header)


GOOD = {1: -8, 3: "application/rim+cbor", 8: cbor2.dumps({0: {0: "ACME"}})}


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(KEY, -8), (ec.derive_private_key(5, ec.SECP256R1()), -7), (ec.derive_private_key(6, ec.SECP384R1()), -35)],
)
def test_what_is_signed_verifies_with_its_key_only(key: CosePrivateKey, algorithm: int) -> None:
    parsed = parse_corim(signed_corim(amd(MEASUREMENT), key, GOOD | {1: algorithm}))
    assert parsed.signer == "ACME"
    spki = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert verify_corim(parsed, key=key.public_key()) == sha256(spki).digest()
    assert "ACME" in references_from_corim(parsed, at=AT).document.origin
    for other in (ec.derive_private_key(9, ec.SECP256R1()), ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))):
        with pytest.raises(SignatureError) as caught:
            verify_corim(parsed, key=other.public_key())
        assert caught.value.code == "corim-signature-invalid"


def test_every_flipped_byte_of_a_signed_corim_is_refused() -> None:
    data = signed(GOOD)
    public = KEY.public_key()
    for at in range(len(data)):
        with pytest.raises((EvidenceError, SignatureError)):
            verify_corim(parse_corim(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]), key=public)


def test_an_unsigned_corim_is_not_signed() -> None:
    with pytest.raises(SignatureError, match="without a signature"):
        verify_corim(parse_corim(amd(MEASUREMENT)), key=KEY.public_key())


@pytest.mark.parametrize(
    ("header", "signer"),
    [
        (GOOD, "ACME"),
        ({1: -8}, None),
        ({1: -19, 4: b"kid"}, None),
        ({1: -8, 15: {1: "issuer"}}, "issuer"),
        ({1: -8, 8: {0: {0: "ACME"}}}, "ACME"),
        ({1: -8, 8: {0: 5}}, None),
        ({1: -8, 8: 5}, None),
        ({1: -8, 15: {1: " \t "}}, None),
        ({1: -8, 15: {1: b""}}, None),
        ({1: -8, 15: {1: bytes(64)}}, "00" * 64),
        ({1: -8, 15: {1: bytes(65)}}, "00" * 64),
        ({1: -8, 15: {1: f" {'n' * 128} "}}, "n" * 128),
        ({1: -8, 15: {1: "n" * 129}}, "n" * 128),
    ],
)
def test_the_signers_name_is_for_people(header: dict[int, Any], signer: str | None) -> None:
    parsed = parse_corim(signed(header))
    assert parsed.signer == signer
    verify_corim(parsed, key=KEY.public_key())


@pytest.mark.parametrize(
    "header",
    [{}, {1: "EdDSA"}, {1: True}, GOOD | {2: [3]}, GOOD | {258: 1}, GOOD | {3: "text/plain"}, GOOD | {33: b"x"}],
)
def test_a_header_that_is_not_understood_is_refused(header: dict[int, Any]) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_corim(signed(header))
    assert caught.value.code == "corim-malformed"


def test_an_algorithm_that_is_not_the_keys_is_refused() -> None:
    with pytest.raises(SignatureError, match="algorithm -7"):
        verify_corim(parse_corim(signed({1: -7})), key=KEY.public_key())


def test_the_signed_content_may_stand_without_its_tag() -> None:
    content = cbor2.dumps(cbor2.loads(amd(MEASUREMENT)).value)
    assert parse_corim(signed(GOOD, content)).id == "test"
    with pytest.raises(EvidenceError):
        parse_corim(signed(GOOD, cbor2.dumps(CBORTag(502, {}))))


# -- any bytes


@given(st.binary(max_size=300))
def test_any_bytes_are_a_document_or_a_documented_error(data: bytes) -> None:
    for one in (data, amd(MEASUREMENT)[:20] + data, corim(data)):
        try:
            imported(one)
        except EvidenceError as exc:
            assert exc.code in ("corim-malformed", "corim-empty", "cbor-invalid")  # noqa: PT017  either is right


@given(st.data())
def test_a_corim_with_changed_bytes_is_a_document_or_a_documented_error(draw: st.DataObject) -> None:
    data = bytearray(
        draw.draw(st.sampled_from([amd(MEASUREMENT), intel({-83: [7, A], 14: {0: [[7, A]]}}), signed(GOOD)]))
    )
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        imported(bytes(data))
    except EvidenceError as exc:
        assert exc.code in ("corim-malformed", "corim-empty", "cbor-invalid")  # noqa: PT017  either is right


_any = st.recursive(
    st.none() | st.booleans() | st.integers(-90, 700) | st.binary(max_size=48) | st.text(max_size=5),
    lambda x: (
        st.lists(x, max_size=4)
        | st.dictionaries(st.sampled_from([0, 1, 2, 3, 4, 5, 14, -83, -84, "a"]), x, max_size=4)
        | st.builds(CBORTag, st.sampled_from([560, 563, 60010, 60020, 552]), x)
    ),
    max_leaves=12,
)


@given(_any, st.sampled_from([AMD, INTEL]))
def test_any_measurement_is_carried_or_left_out(value: Any, profile: Any) -> None:  # noqa: ANN401  any CBOR
    for triple in (value, [CLASS, value], [CLASS, [value]], [CLASS, [{0: 641, 1: value}]], [value, [MEASUREMENT]]):
        try:
            imported(corim(comid(triple), profile=profile))
        except EvidenceError as exc:
            assert exc.code in ("corim-malformed", "corim-empty", "cbor-invalid")  # noqa: PT017  either is right
