"""Receipts, statements and files have one spelling; everything else is refused, whatever the bytes."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from typing import Any

import cbor2
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import cbor_bytes
from attest.errors import AttestError, EvidenceError
from attest.receipts import (
    ReceiptClaims,
    ReceiptFile,
    ReleasePart,
    RequestClaim,
    ResponseClaim,
    parse_receipt,
    parse_receipt_file,
    parse_statement,
)
from attest.receipts.claims import parse_claims
from attest.receipts.signed_receipt import MAX_RECEIPT_BYTES
from attest.receipts.statement import MAX_PARTS
from attest.results.cbor import claims_bytes
from tests.receipts.machine import RESPONSE, Machine, checked
from tests.samples import AT

DIGEST = bytes(range(32))
FILE = Machine().file()
RECEIPT = FILE.receipt.to_bytes()
STATEMENT = Machine().signer.statement.to_bytes()


def refused(parse: Callable[[bytes], object], data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse(data)
    assert caught.value.code in {"receipt-malformed", "cbor-invalid", "json-invalid", "base64-invalid", "hex-invalid"}
    return caught.value


# -- one spelling


def test_a_receipt_is_read_back_byte_by_byte() -> None:
    assert parse_receipt(RECEIPT).to_bytes() == RECEIPT
    assert parse_statement(STATEMENT).to_bytes() == STATEMENT
    assert parse_receipt_file(FILE.to_bytes()) == FILE


def test_the_json_view_holds_the_same_and_gives_the_bytes_back() -> None:
    view = json.loads(FILE.to_json())
    assert view["receipt"]["claims"]["response"]["sha256"] == sha256(RESPONSE).hexdigest()
    assert parse_receipt_file(FILE.to_json()).to_bytes() == FILE.to_bytes()
    compact = FILE.compact()
    assert parse_receipt_file(compact.to_json()).to_bytes() == compact.to_bytes()
    assert parse_receipt_file(json.dumps(view, indent=4).encode()) == FILE


TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
DIGESTS = st.binary(min_size=32, max_size=32)
SIZES = st.integers(0, (1 << 53) - 1)
CLAIMS = st.builds(
    ReceiptClaims,
    issuer=TEXTS,
    issued_at=st.integers(0, 253402300799).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    receipt_id=st.binary(min_size=16, max_size=16),
    challenge=st.none() | st.binary(min_size=8, max_size=64),
    statement=DIGESTS,
    model=DIGESTS,
    sequence=SIZES,
    request=st.builds(RequestClaim, method=TEXTS, target=TEXTS, media_type=TEXTS, size=SIZES, sha256=DIGESTS),
    response=st.builds(
        ResponseClaim,
        status=st.integers(0, 999),
        media_type=st.just("") | TEXTS,
        size=SIZES,
        sha256=DIGESTS,
        complete=st.booleans(),
    ),
    sampling=st.dictionaries(TEXTS, TEXTS, max_size=5).map(lambda texts: tuple(sorted(texts.items()))),
)


@given(claims=CLAIMS)
def test_any_claims_survive_cbor_and_json(claims: ReceiptClaims) -> None:
    assert parse_claims(claims.to_bytes()) == claims
    receipt = replace(FILE.receipt, claims=claims, payload=claims.to_bytes())
    file = replace(FILE, receipt=receipt)
    assert parse_receipt_file(file.to_bytes()) == file
    assert parse_receipt_file(file.to_json()) == file


@given(data=st.binary(max_size=300))
@pytest.mark.parametrize("parse", [parse_receipt, parse_statement, parse_receipt_file, parse_claims, ReleasePart.parse])
def test_any_bytes_are_read_or_refused_by_a_documented_error(parse: Callable[[bytes], object], data: bytes) -> None:
    for prefix in (b"", b"\xd8\x62", b"{"):
        with pytest.raises(AttestError):
            parse(prefix + data)


@pytest.mark.parametrize(
    ("parse", "whole"),
    [(parse_receipt, RECEIPT), (parse_statement, STATEMENT), (parse_receipt_file, FILE.to_bytes())],
    ids=["receipt", "statement", "file"],
)
def test_truncated_and_continued_bytes_are_refused(parse: Callable[[bytes], object], whole: bytes) -> None:
    for size in range(len(whole)):
        refused(parse, whole[:size])
    refused(parse, whole + b"\0")


# -- each bit


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def bits(data: bytes, *, every: bool) -> Iterator[int]:
    """Each bit, or one of each byte."""
    chosen = random.Random(1)
    yield from range(8 * len(data)) if every else (8 * at + chosen.randrange(8) for at in range(len(data)))


def require_refused(file: Callable[[], ReceiptFile]) -> None:
    with pytest.raises(AttestError):
        checked(file())


def flip_receipt(*, every: bool) -> None:
    for bit in bits(RECEIPT, every=every):
        require_refused(lambda bit=bit: replace(FILE, receipt=parse_receipt(flipped(RECEIPT, bit))))  # type: ignore[misc]


def flip_chain(*, every: bool) -> None:
    """The parts that the receipt binds by a digest; evidence and owner's signature are bound by what they sign."""
    parts = FILE.models[0]
    assert isinstance(parts.manifest, bytes)
    assert isinstance(parts.release, bytes)
    for name, whole in (("manifest", parts.manifest), ("release", parts.release)):
        for bit in islice(bits(whole, every=every), 0, None, 1 if every else 10):
            changed = replace(parts, **{name: flipped(whole, bit)})
            require_refused(lambda changed=changed: replace(FILE, models=(changed,)))  # type: ignore[misc]
    for bit in islice(bits(STATEMENT, every=every), 0, None, 1 if every else 10):
        require_refused(lambda bit=bit: replace(FILE, statement=flipped(STATEMENT, bit)))  # type: ignore[misc]


def test_a_bit_of_each_byte_of_a_receipt_flipped_is_refused() -> None:
    flip_receipt(every=False)


@pytest.mark.slow
def test_every_bit_of_a_receipt_flipped_is_refused() -> None:
    flip_receipt(every=True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_bit_of_the_bound_parts_flipped_is_refused() -> None:
    flip_chain(every=True)


def test_a_bit_of_each_tenth_byte_of_the_bound_parts_flipped_is_refused() -> None:
    flip_chain(every=False)


def test_a_flipped_bit_of_evidence_or_signature_changes_nothing_that_is_verified() -> None:
    """A name of an item, or of a mark beside it, proves nothing: what does is refused when it changes."""
    signature = FILE.models[0].signature
    assert isinstance(FILE.evidence, bytes)
    assert isinstance(signature, bytes)
    honest, unchanged = checked(FILE), 0
    for at in range(0, 8 * len(FILE.evidence), 61):
        unchanged += holds(replace(FILE, evidence=flipped(FILE.evidence, at)), honest.claims)
    for at in range(0, 8 * len(signature), 61):
        changed = replace(FILE.models[0], signature=flipped(signature, at))
        unchanged += holds(replace(FILE, models=(changed,)), honest.claims)
    assert unchanged < 5


def holds(file: ReceiptFile, claims: ReceiptClaims) -> bool:
    try:
        return checked(file).claims == claims
    except AttestError:
        return False


@pytest.mark.parametrize("which", ["request", "response"])
def test_every_bit_of_a_body_flipped_is_refused(which: str) -> None:
    whole = {"request": b'{"n":1}', "response": b"data: yes\n\n"}
    file = Machine().file(request=whole["request"], events=(whole["response"],))
    assert checked(file, **whole).claims == file.receipt.claims  # type: ignore[arg-type]  # named as `checked` names them
    for bit in bits(whole[which], every=True):
        with pytest.raises(AttestError) as caught:
            checked(file, **whole | {which: flipped(whole[which], bit)})  # type: ignore[arg-type]
        assert caught.value.code == f"receipt-{which}-mismatch"


# -- each field


def paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested maps and arrays."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield (*path, name)
            yield from paths(member, (*path, name))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield (*path, at)
            yield from paths(member, (*path, at))


def edited(document: Any, path: tuple[Any, ...], edit: Callable[[Any, Any], None]) -> Any:  # noqa: ANN401  nested
    copy = cbor2.loads(claims_bytes(document))
    place = copy
    for name in path[:-1]:
        place = place[name]
    edit(place, path[-1])
    return copy


def drop(place: Any, name: Any) -> None:  # noqa: ANN401  a map or an array
    del place[name]


def nullify(place: Any, name: Any) -> None:  # noqa: ANN401  a map or an array
    place[name] = None


def retype(place: Any, name: Any) -> None:  # noqa: ANN401  a map or an array
    place[name] = "" if isinstance(place[name], bytes | int) else b""


def rename(place: Any, name: Any) -> None:  # noqa: ANN401  a map
    place["x"] = place.pop(name)


PAYLOAD = cbor2.loads(FILE.receipt.payload)
DOCUMENTS: dict[str, tuple[Any, Callable[[bytes], object], frozenset[tuple[Any, ...]]]] = {
    "claims": (PAYLOAD, parse_claims, frozenset({("sampling", "seed"), ("sampling", "temperature")})),
    "statement": (cbor2.loads(STATEMENT), parse_statement, frozenset()),
    "file": (cbor2.loads(FILE.to_bytes()), parse_receipt_file, frozenset()),
}
NULLABLE = {("models", 0, "parts", 0, "release"), ("models", 0, "quantisation"), ("models", 0, "release")}
"""Null has a meaning there, which the procedure judges."""


@pytest.mark.parametrize("edit", [drop, nullify, retype, rename], ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_field_missing_null_of_another_type_or_unknown_is_refused(
    name: str, edit: Callable[[Any, Any], None]
) -> None:
    document, parse, free = DOCUMENTS[name]
    assert parse(claims_bytes(document))
    for path in paths(document):
        if edit is nullify and path in NULLABLE:
            continue
        if edit in (drop, rename) and (path in free or isinstance(path[-1], int)):
            continue  # a list or a map of any members
        changed = edited(document, path, edit)
        if changed != document:
            refused(parse, claims_bytes(changed))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_doubled_field_is_refused(name: str) -> None:
    document, parse, _ = DOCUMENTS[name]
    members = [claims_bytes(key) + claims_bytes(value) for key, value in document.items()]
    doubled = bytes([0xA0 | len(members) + 1]) + b"".join([*members, members[0]])
    assert refused(parse, doubled).code in {"cbor-invalid", "receipt-malformed"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((265,), "tag:attest,2026:receipt/2"),
        ((1,), "x" * 513),
        ((1,), "a\nb"),
        ((6,), -1),
        ((6,), 253402300800),
        ((6,), True),
        ((7,), bytes(15)),
        ((7,), bytes(17)),
        ((10,), bytes(7)),
        ((10,), bytes(65)),
        ((10,), None),
        (("statement",), bytes(31)),
        (("sequence",), -1),
        (("sequence",), 1 << 53),
        (("response", "status"), 1000),
        (("response", "complete"), 1),
        (("request", "size"), True),
        (("request", "target"), "x" * 2049),
        (("sampling",), {f"p{n}": "1" for n in range(33)}),
        (("sampling", "seed"), "x" * 257),
        (("sampling", "seed"), 42),
        (("sampling",), {"": "1"}),
        (("sampling",), {7: "1"}),
        (("sampling",), {"x" * 65: "1"}),
    ],
    ids=str,
)
def test_a_claim_beyond_its_limits_is_refused(path: tuple[Any, ...], value: object) -> None:
    def put(place: Any, name: Any) -> None:  # noqa: ANN401  a map
        place[name] = value

    refused(parse_claims, claims_bytes(edited(PAYLOAD, path, put)))


def test_claims_in_another_order_are_refused() -> None:
    pairs = [claims_bytes(key) + claims_bytes(value) for key, value in PAYLOAD.items()]
    other = bytes([0xA0 | len(pairs)]) + b"".join(reversed(pairs))
    assert cbor2.loads(other) == PAYLOAD
    refused(parse_claims, other)


# -- COSE


def message(**changes: Any) -> bytes:  # noqa: ANN401  members of COSE_Sign
    body, _, payload, signers = cbor2.loads(RECEIPT).value
    members: dict[str, Any] = {
        "body": body,
        "unprotected": {},
        "payload": payload,
        "signers": signers,
        "tag": b"\xd8\x62",
    } | changes
    tag: bytes = members["tag"]
    return tag + claims_bytes([members["body"], members["unprotected"], members["payload"], members["signers"]])


def signers_with(at: int, *, header: Any = None, unprotected: Any = None, signature: bytes = b"") -> list[Any]:  # noqa: ANN401  COSE
    signers = list(cbor2.loads(RECEIPT).value[3])
    protected, _, old = signers[at]
    changed = protected if header is None else claims_bytes({**cbor2.loads(protected), **header})
    signers[at] = [changed, unprotected or {}, signature or old]
    return signers


_BOTH = list(cbor2.loads(RECEIPT).value[3])
HOSTILE: dict[str, dict[str, Any]] = {
    "COSE_Sign1": {"tag": b"\xd2"},
    "no tag": {"tag": b""},
    "a CWT tag outside": {"tag": b"\xd8\x3d\xd8\x62"},
    "no signature": {"signers": []},
    "Ed25519 alone": {"signers": _BOTH[:1]},
    "ML-DSA-65 alone": {"signers": _BOTH[1:]},
    "the other order": {"signers": _BOTH[::-1]},
    "one of them twice": {"signers": [_BOTH[0], _BOTH[0]]},
    "a third": {"signers": [*_BOTH, _BOTH[0]]},
    "typ unprotected": {"body": b"", "unprotected": {16: "application/vnd.attest.receipt+cose"}},
    "an unprotected header": {"unprotected": {4: b"kid"}},
    "another typ": {"body": claims_bytes({16: "application/cwt"})},
    "crit": {"body": claims_bytes({2: [16], 16: "application/vnd.attest.receipt+cose"})},
    "an algorithm in the body": {"body": claims_bytes({1: -19, 16: "application/vnd.attest.receipt+cose"})},
    "detached": {"payload": None},
    "EdDSA by its old number": {"signers": signers_with(0, header={1: -8})},
    "ES256": {"signers": signers_with(0, header={1: -7})},
    "an algorithm as text": {"signers": signers_with(0, header={1: "Ed25519"})},
    "ML-DSA-44": {"signers": signers_with(1, header={1: -48})},
    "a key in a header": {"signers": signers_with(0, header={33: b"certificate"})},
    "crit of a signer": {"signers": signers_with(1, header={2: [4]})},
    "kid unprotected": {"signers": signers_with(0, unprotected={4: bytes(32)})},
    "a short kid": {"signers": signers_with(0, header={4: bytes(31)})},
    "a short signature": {"signers": signers_with(0, signature=bytes(63))},
    "a long signature": {"signers": signers_with(1, signature=bytes(3310))},
}


def test_the_untouched_message_is_the_receipt() -> None:
    assert message() == RECEIPT


@pytest.mark.parametrize("name", HOSTILE)
def test_another_use_of_cose_is_refused(name: str) -> None:
    refused(parse_receipt, message(**HOSTILE[name]))


def test_limits_come_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attest.receipts.receipt_file.MAX_FILE_BYTES", len(FILE.to_bytes()) - 1)
    assert "at most" in refused(parse_receipt_file, FILE.to_bytes()).message
    assert "at most" in refused(parse_receipt, bytes(MAX_RECEIPT_BYTES + 1)).message
    assert "at most" in refused(parse_statement, bytes(4 * 1024 * 1024 + 1)).message


@pytest.mark.parametrize(
    ("parse", "data"),
    [
        (parse_receipt_file, b"\xa5\x61a\x9a\x01\x00\x00\x00" + b"\x80" * (1 << 24)),
        (parse_receipt_file, b'{"a":[' + b"[]," * (1 << 22) + b"1]}"),
        (parse_statement, b"\x9a\x00\x3f\xff\x00" + b"\x80" * 0x3FFF00),
    ],
    ids=["file", "json", "statement"],
)
def test_millions_of_empty_values_are_refused_before_they_take_memory(
    parse: Callable[[bytes], object], data: bytes
) -> None:
    tracemalloc.start()
    try:
        assert "values" in refused(parse, data).message
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_file_with_as_many_models_as_it_may_have_is_read() -> None:
    largest = replace(FILE, models=FILE.models * MAX_PARTS)
    for one in (largest, largest.compact()):
        for data in (one.to_bytes(), one.to_json()):
            assert parse_receipt_file(data).to_bytes() == one.to_bytes()


def test_an_independent_reader_of_cose_verifies_both_signatures() -> None:
    """Written from RFC 9052 alone, with cbor2 and the two primitives."""
    tagged = cbor2.loads(RECEIPT)
    body, unprotected, payload, signers = tagged.value
    assert (tagged.tag, unprotected) == (98, {})
    statement = cbor2.loads(STATEMENT)
    keys: dict[int, Ed25519PublicKey | MLDSA65PublicKey] = {
        -19: Ed25519PublicKey.from_public_bytes(statement["ed25519"]),
        -49: MLDSA65PublicKey.from_public_bytes(statement["ml-dsa-65"]),
    }
    for protected, nothing, signature in signers:
        header = cbor2.loads(protected)
        structure = cbor2.dumps(["Signature", body, protected, b"", payload], canonical=True)
        keys[header[1]].verify(signature, structure)
        assert nothing == {}
        with pytest.raises(InvalidSignature):
            keys[header[1]].verify(signature, structure + b"\0")
    assert cbor2.loads(payload)[6] == int(AT.timestamp())


# -- statements


def restated(change: Callable[[Any], None]) -> bytes:
    document = cbor2.loads(STATEMENT)
    change(document)
    return claims_bytes(document)


def files_of(document: Any) -> Any:  # noqa: ANN401  the first part's
    return document["models"][0]["parts"][0]["files"]


STATEMENTS: dict[str, Callable[[Any], None]] = {
    "another version": lambda one: one.update(schema="attest.receipt-statement/2"),
    "a model twice": lambda one: one.update(models=one["models"] * 2),
    "no model": lambda one: one.update(models=[]),
    "another order of files": lambda one: files_of(one).reverse(),
    "a file twice": lambda one: files_of(one).insert(0, files_of(one)[0]),
    "an unsafe path": lambda one: files_of(one)[-1].update(path="../x"),
    "an absolute path": lambda one: files_of(one)[0].update(path="/etc/passwd"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_that_two_readers_could_read_differently_is_refused(name: str) -> None:
    refused(parse_statement, restated(STATEMENTS[name]))


# -- JSON


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("receipt", "claims", "cti"), "AB" * 16),
        (("receipt", "claims", "cti"), "zz"),
        (("receipt", "claims", "iat"), 1.5),
        (("receipt", "claims", "1"), "x"),
        (("receipt", "claims"), []),
        (("receipt", "signatures", "ed25519", "kid"), "AB" * 32),
        (("receipt", "signatures", "ed25519", "signature"), "AAAA"),
        (("receipt", "signatures", "ed25519", "signature"), "=" * 86),
        (("receipt", "signatures", "rsa"), {}),
        (("receipt",), "x"),
        (("statement",), "=="),
        (("statement",), 7),
        (("statement",), {"sha256": "00"}),
        (("statement",), {"sha256": "AB" * 32}),
        (("statement",), {"sha1": "00" * 20}),
        (("models",), []),
        (("models", 0, "release"), 7),
        (("schema",), "attest.receipt-file/2"),
        (("extra",), 1),
    ],
    ids=str,
)
def test_a_json_view_of_another_form_is_refused(path: tuple[Any, ...], value: object) -> None:
    view = json.loads(FILE.to_json())
    place = view
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    refused(parse_receipt_file, json.dumps(view).encode())


def test_a_changed_claim_of_the_json_view_has_a_signature_that_fails() -> None:
    view = FILE.to_json().replace(b'"status":200', b'"status":201')
    with pytest.raises(AttestError) as caught:
        checked(parse_receipt_file(view))
    assert caught.value.code == "receipt-signature-invalid"


def test_a_release_of_another_form_is_refused() -> None:
    for document in ({"receipt": 1, "entry": b"", "proof": ""}, {"receipt": "", "entry": "", "proof": ""}, {}, 7):
        refused(ReleasePart.parse, cbor_bytes(document))  # type: ignore[arg-type]  # other forms
