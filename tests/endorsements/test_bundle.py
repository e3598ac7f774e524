"""Offline bundles: one encoding, an end that is one, and signatures that cover every byte."""

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import CborValue, cbor_bytes, cbor_value
from attest.endorsements.bundle import build_bundle, key_id_of, read_bundle_key, sign_bundle, verify_bundle
from attest.endorsements.bundle_reader import is_bundle, parse_bundle
from attest.endorsements.bundle_records import (
    BUNDLE_FORMAT,
    MAX_BUNDLE_BYTES,
    MAX_CHAIN_CERTIFICATES,
    MAX_ENTRIES,
    MAX_SIGNATURES,
    MAX_SOURCE_CHARACTERS,
    BundleEntry,
    BundleKeys,
    BundleSigner,
    ParsedBundle,
    UnsignedBundles,
)
from attest.endorsements.intel_answers import intel_answer_bytes
from attest.errors import ConfigurationError, EndorsementError
from tests.endorsements import made, made_ocsp

CREATED = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
EXPIRES = CREATED + timedelta(days=30)
SECOND = timedelta(seconds=1)
ANYBODY = UnsignedBundles.ACCEPTED

LEAF = BundleEntry(kind="amd-vcek", source="https://kds.example/vcek", data=made.certificate())
CHAIN = BundleEntry(
    kind="amd-chain",
    source="https://kds.example/chain",
    data=made.pem("CERTIFICATE", made.certificate(serial=1)) + made.pem("CERTIFICATE", made.certificate(serial=2)),
)
CRL = BundleEntry(kind="amd-crl", source="https://kds.example/crl", data=made.crl(revoked=(9,)))
ENTRIES = (LEAF, CHAIN, CRL)
INFO = BundleEntry(
    kind="intel-tcb-info",
    source="https://pcs.example/tcb",
    data=intel_answer_bytes(b'{"tcbInfo":{},"signature":"' + b"ab" * 64 + b'"}', issuer_chain=CHAIN.data),
)
IDENTITY = BundleEntry(
    kind="intel-qe-identity",
    source="https://pcs.example/qe",
    data=intel_answer_bytes(b'{"enclaveIdentity":{},"signature":"' + b"cd" * 64 + b'"}', issuer_chain=CHAIN.data),
)
INTEL_CRL = BundleEntry(
    kind="intel-crl",
    source="https://pcs.example/crl",
    data=intel_answer_bytes(CRL.data, issuer_chain=b""),
)

RIM_XML = b"<SoftwareIdentity/>"
RIM = BundleEntry(
    kind="nvidia-rim",
    source="https://rim.example/1",
    data=json.dumps({"id": "NV_X", "rim": b64encode(RIM_XML).decode(), "sha256": sha256(RIM_XML).hexdigest()}).encode(),
)
OCSP = BundleEntry(kind="nvidia-ocsp", source="https://ocsp.example/", data=made_ocsp.Made().der())

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = ed25519.Ed25519PrivateKey.from_private_bytes(b"o" * 32)
TRUSTED = BundleKeys(keys=(KEY.public_key(),))


def bundle() -> ParsedBundle:
    return build_bundle(ENTRIES, created=CREATED, expires=EXPIRES)


def refusal(data: bytes, words: str | None = None) -> EndorsementError:
    with pytest.raises(EndorsementError, match=words) as raised:
        parse_bundle(data)
    assert (raised.value.code, raised.value.exit_code) == ("bundle-malformed", 5)
    return raised.value


def changed(**members: CborValue) -> bytes:
    whole = dict(cbor_value(bundle().to_bytes(), what="bundle"))  # type: ignore[arg-type]  # it is a map
    return cbor_bytes({**whole, **members})


def entry_record(entry: BundleEntry, **members: CborValue) -> dict[str, CborValue]:
    return {"kind": entry.kind, "source": entry.source, "data": entry.data, **members}


# -- making and reading


def test_a_bundle_holds_what_was_put_in_and_encodes_to_itself() -> None:
    made_bundle = bundle()
    read = parse_bundle(made_bundle.to_bytes())
    assert read == made_bundle
    assert read.entries == ENTRIES
    assert (read.created, read.expires, read.signatures) == (CREATED, EXPIRES, ())
    assert [c.serial for c in read.endorsements.certificates] == [7, 1, 2]
    assert [c.revoked for c in read.endorsements.crls] == [frozenset({9})]
    assert cbor_value(read.to_bytes(), what="bundle") == {
        "format": BUNDLE_FORMAT,
        "created": "2026-03-01T12:00:00Z",
        "expires": "2026-03-31T12:00:00Z",
        "entries": [entry_record(entry) for entry in ENTRIES],
    }


def test_answers_of_intels_service_are_held_with_their_issuer_chains() -> None:
    made_bundle = build_bundle((INFO, IDENTITY, INTEL_CRL), created=CREATED, expires=EXPIRES)
    read = parse_bundle(made_bundle.to_bytes())
    assert read == made_bundle
    assert [document.kind for document in read.endorsements.documents] == ["tcb-info", "qe-identity"]
    assert [c.serial for c in read.endorsements.certificates] == [1, 2]
    assert [c.revoked for c in read.endorsements.crls] == [frozenset({9})]


def test_rims_and_ocsp_answers_of_nvidia_are_held_as_they_came() -> None:
    made_bundle = build_bundle((RIM, OCSP), created=CREATED, expires=EXPIRES)
    read = parse_bundle(made_bundle.to_bytes())
    assert read == made_bundle
    assert [rim.xml for rim in read.endorsements.rims] == [RIM_XML]
    assert [answer.der for answer in read.endorsements.ocsp] == [OCSP.data]


@pytest.mark.parametrize("entry", [replace(RIM, data=OCSP.data), replace(OCSP, data=RIM.data)], ids=["rim", "ocsp"])
def test_what_is_no_rim_or_no_answer_is_not_held_as_one(entry: BundleEntry) -> None:
    with pytest.raises(EndorsementError, match=f"a readable {entry.kind}") as raised:
        build_bundle((entry,), created=CREATED, expires=EXPIRES)
    assert raised.value.code == "bundle-malformed"


def test_an_answer_that_was_had_twice_is_kept_once() -> None:
    assert build_bundle((*ENTRIES, LEAF), created=CREATED, expires=EXPIRES) == bundle()


def test_a_bundle_needs_a_beginning_before_its_end_and_time_zones() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        build_bundle(ENTRIES, created=CREATED, expires=CREATED)
    with pytest.raises(ValueError, match="time zone"):
        build_bundle(ENTRIES, created=CREATED.replace(tzinfo=None), expires=EXPIRES)
    with pytest.raises(ValueError, match="time zone"):
        build_bundle(ENTRIES, created=CREATED, expires=EXPIRES.replace(tzinfo=None))


def test_moments_are_written_in_utc_whatever_zone_they_come_in() -> None:
    zone = timezone(timedelta(hours=9))
    same = build_bundle(ENTRIES, created=CREATED.astimezone(zone), expires=EXPIRES.astimezone(zone))
    assert same.to_bytes() == bundle().to_bytes()


@pytest.mark.parametrize(
    "entry",
    [
        replace(LEAF, data=b"garbage"),
        replace(CRL, data=LEAF.data),
        replace(LEAF, data=CRL.data),
        replace(CHAIN, data=b"no PEM"),
        replace(INFO, data=IDENTITY.data),
        replace(IDENTITY, data=INFO.data),
        replace(INTEL_CRL, data=CRL.data),
        replace(INTEL_CRL, data=INFO.data),
        replace(CRL, data=INTEL_CRL.data),
        replace(CHAIN, data=made.pem("X509 CRL", CRL.data)),
        replace(CHAIN, data=made.pem("CERTIFICATE", b"garbage")),
        replace(CHAIN, data=b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----"),
        replace(CHAIN, data=CHAIN.data * MAX_CHAIN_CERTIFICATES),
        replace(LEAF, source="https://kds.example/\x1b[2J"),
        replace(LEAF, source="https://kds.example/ä"),
        replace(LEAF, source="x" * (MAX_SOURCE_CHARACTERS + 1)),
    ],
)
def test_nothing_unreadable_gets_into_a_bundle_or_out_of_one(entry: BundleEntry) -> None:
    with pytest.raises(EndorsementError) as raised:
        build_bundle((entry,), created=CREATED, expires=EXPIRES)
    assert raised.value.code == "bundle-malformed"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not canonical CBOR"),
        (bundle().to_bytes() + b"\0", "not canonical CBOR"),
        (bundle().to_bytes()[:-1], "not canonical CBOR"),
        (cbor_bytes("text"), "bundle: expected a map"),
        (cbor_bytes({}), "bundle: expected a map"),
        (changed(more=1), "bundle: expected a map"),
        (changed(format="attest.endorsements/2"), "format: expected attest.endorsements/1"),
        (changed(format=1), "format: expected"),
        (changed(created=1), "created: expected text"),
        (changed(created="yesterday"), "created: expected an RFC 3339 time"),
        (changed(created="2026-03-01T13:00:00+01:00"), "created: expected 2026-03-01T12:00:00Z, the one spelling"),
        (changed(expires="2026-03-01T12:00:00Z"), "expires: expected later than 2026-03-01T12:00:00Z"),
        (changed(entries={}), "entries: expected an array"),
        (changed(entries=()), "entries: expected at least one"),
        (changed(entries=(None,) * (MAX_ENTRIES + 1)), f"entries: expected at most {MAX_ENTRIES}"),
        (changed(entries=(entry_record(LEAF), entry_record(LEAF))), "entries: expected each entry once"),
        (changed(entries=(entry_record(LEAF, more=1),)), r"entries\[0\]: expected a map"),
        (changed(entries=(entry_record(LEAF, kind="intel"),)), r"entries\[0\]\.kind: expected amd-vcek or"),
        (changed(entries=(entry_record(LEAF, kind=7),)), r"entries\[0\]\.kind: expected text"),
        (changed(entries=(entry_record(LEAF, data="text"),)), r"entries\[0\]\.data: expected a byte string"),
        (bytes(MAX_BUNDLE_BYTES + 1), f"at most {MAX_BUNDLE_BYTES} bytes"),
    ],
    ids=made.label,
)
def test_a_malformed_bundle_is_refused_with_the_path_of_what_is_wrong(data: bytes, words: str) -> None:
    refusal(data, words)


def signed_record(*signatures: CborValue, **members: CborValue) -> bytes:
    return cbor_bytes({"bundle": bundle().to_bytes(), "signatures": signatures, **members})


def signature_record(key_id: bytes = b"i" * 32, **members: CborValue) -> dict[str, CborValue]:
    return {"algorithm": "Ed25519", "key_id": key_id, "signature": b"s" * 64, **members}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (signed_record(), "signatures: expected at least one"),
        (signed_record(more=1), "signed bundle: expected a map of bundle, signatures"),
        (signed_record(signature_record(), bundle="text"), "bundle: expected a byte string"),
        (signed_record(signature_record(), bundle=b""), "not canonical CBOR"),
        (
            signed_record(signature_record(), bundle=signed_record(signature_record())),
            "bundle: expected a map of format",
        ),
        (signed_record(signatures={}), "signatures: expected an array"),
        (signed_record(1), r"signatures\[0\]: expected a map"),
        (signed_record(signature_record(algorithm="none")), r"signatures\[0\]\.algorithm: expected Ed25519"),
        (signed_record(signature_record(b"i" * 31)), r"signatures\[0\]\.key_id: expected 32 bytes"),
        (signed_record(signature_record(signature=b"s" * 65)), r"signatures\[0\]\.signature: expected 64 bytes"),
        (signed_record(signature_record(), signature_record()), "no key twice"),
        (signed_record(signature_record(b"b" * 32), signature_record(b"a" * 32)), "in the order of key ids"),
        (
            signed_record(*(signature_record(bytes([i]) * 32) for i in range(MAX_SIGNATURES + 1))),
            f"at most {MAX_SIGNATURES}",
        ),
    ],
    ids=made.label,
)
def test_a_malformed_signature_beside_a_bundle_is_refused(data: bytes, words: str) -> None:
    refusal(data, words)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bundle_or_a_documented_refusal(data: bytes) -> None:
    refusal(data)
    refusal(bundle().to_bytes()[: len(data)] + data)


def damaged(whole: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(whole) - 1))
    return whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]


@given(data=st.data())
def test_what_is_accepted_encodes_to_the_same_bytes(data: st.DataObject) -> None:
    for whole in (bundle().to_bytes(), sign_bundle(bundle(), KEY).to_bytes()):
        tried = damaged(whole, data)
        try:
            read = parse_bundle(tried)
        except EndorsementError:
            continue
        assert read.to_bytes() == tried


# -- recognition


def test_a_bundle_is_recognised_by_its_first_bytes() -> None:
    assert is_bundle(bundle().to_bytes())
    assert is_bundle(sign_bundle(bundle(), KEY).to_bytes())
    assert is_bundle(changed(format="attest.endorsements/9"))  # recognised, so that its refusal can say why
    for other in (b"", b"\xa0", b"0", LEAF.data, CHAIN.data, cbor_bytes({"format": "other"}), cbor_bytes(["bundle"])):
        assert not is_bundle(other)
    head = b"\xa1" + cbor_bytes("format")
    assert is_bundle(head + b"?" * 12 + b"attest.endorsements/")
    assert not is_bundle(head + b"?" * 13 + b"attest.endorsements/")  # what stands deeper inside is something else
    for first, known in ((0x9F, False), (0xA0, True), (0xBB, True), (0xBC, False)):
        assert is_bundle(bytes([first]) + cbor_bytes("bundle")) is known


# -- dates


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (CREATED - SECOND, "bundle-not-yet-valid"),
        (CREATED, None),
        (CREATED + SECOND, None),
        (EXPIRES - SECOND, None),
        (EXPIRES, "bundle-expired"),
        (EXPIRES + SECOND, "bundle-expired"),
    ],
)
def test_mc_9_a_bundle_may_be_used_from_its_creation_to_before_its_end(at: datetime, code: str | None) -> None:
    if code is None:
        verified = verify_bundle(bundle(), at=at, keys=ANYBODY)
        assert (verified.entries, verified.signed_by, verified.at) == (ENTRIES, (), at)
        assert (verified.created, verified.expires) == (CREATED, EXPIRES)
        return
    with pytest.raises(EndorsementError) as raised:
        verify_bundle(bundle(), at=at, keys=ANYBODY)
    assert (raised.value.code, raised.value.exit_code) == (code, 5)
    assert raised.value.retryable is (code == "bundle-not-yet-valid")


# -- signatures


def test_a_bundle_signed_by_a_listed_key_is_accepted_and_says_by_which() -> None:
    signed = parse_bundle(sign_bundle(bundle(), KEY).to_bytes())
    assert verify_bundle(signed, at=CREATED, keys=TRUSTED).signed_by == (key_id_of(KEY.public_key()),)
    assert verify_bundle(signed, at=CREATED, keys=ANYBODY).signed_by == ()


def test_one_listed_signature_is_enough_and_others_do_no_harm() -> None:
    both = sign_bundle(sign_bundle(bundle(), OTHER), KEY)
    assert parse_bundle(both.to_bytes()) == both
    assert verify_bundle(both, at=CREATED, keys=TRUSTED).signed_by == (key_id_of(KEY.public_key()),)
    two = BundleKeys(keys=(OTHER.public_key(), KEY.public_key()))
    assert set(verify_bundle(both, at=CREATED, keys=two).signed_by) == {s.key_id for s in both.signatures}
    assert sign_bundle(both, KEY) == both


def refused(tried: ParsedBundle, keys: BundleKeys) -> str:
    with pytest.raises(EndorsementError) as raised:
        verify_bundle(tried, at=CREATED, keys=keys)
    return raised.value.code


def test_where_keys_are_listed_an_unsigned_bundle_is_refused() -> None:
    assert refused(bundle(), TRUSTED) == "bundle-unsigned"


def test_the_empty_list_of_keys_accepts_nobody() -> None:
    assert refused(bundle(), BundleKeys(keys=())) == "bundle-unsigned"
    assert refused(sign_bundle(bundle(), KEY), BundleKeys(keys=())) == "bundle-signature-invalid"


def test_a_signature_of_somebody_else_is_not_enough() -> None:
    assert refused(sign_bundle(bundle(), OTHER), TRUSTED) == "bundle-signature-invalid"


def test_a_signature_of_a_listed_key_that_does_not_verify_refuses_beside_a_good_one() -> None:
    both = sign_bundle(sign_bundle(bundle(), OTHER), KEY)
    broken = replace(
        both,
        signatures=tuple(
            replace(s, signature=bytes(64)) if s.key_id == key_id_of(OTHER.public_key()) else s for s in both.signatures
        ),
    )
    assert refused(broken, BundleKeys(keys=(KEY.public_key(), OTHER.public_key()))) == "bundle-signature-invalid"


def test_a_signature_is_judged_before_the_dates_that_it_covers() -> None:
    forged = sign_bundle(build_bundle(ENTRIES, created=CREATED, expires=EXPIRES + timedelta(days=9000)), OTHER)
    with pytest.raises(EndorsementError) as raised:
        verify_bundle(forged, at=EXPIRES + timedelta(days=1), keys=TRUSTED)
    assert raised.value.code == "bundle-signature-invalid"


def test_a_signature_over_the_bare_bytes_or_for_another_purpose_does_not_count() -> None:
    for message in (bundle().inner, b"attest endorsement bundle v2\0" + bundle().inner):
        signature = KEY.sign(message)
        record = signature_record(key_id_of(KEY.public_key()), signature=signature)
        assert refused(parse_bundle(signed_record(record)), TRUSTED) == "bundle-signature-invalid"


def test_every_flipped_byte_of_a_signed_bundle_is_refused() -> None:
    whole = sign_bundle(bundle(), KEY).to_bytes()
    assert verify_bundle(parse_bundle(whole), at=CREATED, keys=TRUSTED).entries == ENTRIES
    for at in range(len(whole)):
        for mask in (0x01, 0x80, 0xFF):
            flipped = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
            with pytest.raises(EndorsementError):
                verify_bundle(parse_bundle(flipped), at=CREATED, keys=TRUSTED)


def test_every_truncation_and_every_added_byte_is_refused() -> None:
    whole = sign_bundle(bundle(), KEY).to_bytes()
    for length in range(len(whole)):
        refusal(whole[:length])
    refusal(whole + b"\0")


def test_a_signer_may_live_elsewhere_and_is_not_believed_blindly() -> None:
    messages: list[bytes] = []

    def sign(message: bytes) -> bytes:
        messages.append(message)
        return KEY.sign(message)

    assert sign_bundle(bundle(), BundleSigner(public_key=KEY.public_key(), sign=sign)) == sign_bundle(bundle(), KEY)
    assert messages == [b"attest endorsement bundle v1\0" + bundle().inner]
    with pytest.raises(ValueError, match="does not verify"):
        sign_bundle(bundle(), BundleSigner(public_key=KEY.public_key(), sign=OTHER.sign))


def test_a_bundle_carries_a_bounded_number_of_signatures() -> None:
    signed = bundle()
    for i in range(MAX_SIGNATURES):
        signed = sign_bundle(signed, ed25519.Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32))
    assert parse_bundle(signed.to_bytes()) == signed
    with pytest.raises(EndorsementError) as raised:
        sign_bundle(signed, KEY)
    assert raised.value.code == "bundle-malformed"


# -- keys


def spki_pem(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_the_key_of_a_signer_is_read_from_pem() -> None:
    assert key_id_of(read_bundle_key(spki_pem(KEY))) == key_id_of(KEY.public_key())


@pytest.mark.parametrize(
    "text",
    [b"", b"text", spki_pem(KEY)[:60], spki_pem(made.ROOT_KEY), made.pem("CERTIFICATE", LEAF.data)],
    ids=made.label,
)
def test_what_is_no_ed25519_public_key_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_bundle_key(text)
    assert raised.value.code == "bundle-key-invalid"
