"""The data key as a Tink keyset: the form of the specification, read strictly, and never quoted."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import SealedFileError
from attest.sealed import key_from_tink, tink_keyset
from tests.sealed.segments import KEY

Json = Any  # JSON that is taken apart
VALUE = "EggIgIBAECAYAxogAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def refused(keyset: bytes) -> SealedFileError:
    with pytest.raises(SealedFileError) as caught:
        key_from_tink(keyset)
    assert caught.value.code == "sealed-keyset-invalid"
    assert caught.value.__cause__ is None
    return caught.value


def test_the_keyset_is_that_of_the_specification() -> None:
    assert json.loads(tink_keyset(KEY)) == {
        "primaryKeyId": 1,
        "key": [
            {
                "keyData": {
                    "typeUrl": "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey",
                    "value": VALUE,
                    "keyMaterialType": "SYMMETRIC",
                },
                "status": "ENABLED",
                "keyId": 1,
                "outputPrefixType": "RAW",
            }
        ],
    }


@given(st.binary(min_size=32, max_size=32))
def test_a_key_comes_back_from_its_keyset(key: bytes) -> None:
    assert key_from_tink(tink_keyset(key).encode()) == key


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_has_no_keyset(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        tink_keyset(bytes(length))


def test_a_keyset_with_tinks_own_prefix_type_and_another_id_is_read() -> None:
    document = json.loads(tink_keyset(KEY))
    document["key"][0] |= {"outputPrefixType": "TINK", "keyId": 4000000000}
    document["primaryKeyId"] = 4000000000
    assert key_from_tink(json.dumps(document).encode()) == KEY


def entry(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda document: change(document["key"][0])


def data(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda document: change(document["key"][0]["keyData"])


def value(raw: bytes) -> Callable[[Json], object]:
    return data(lambda members: members.update(value=base64.b64encode(raw).decode()))


RAW = base64.b64decode(VALUE)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("key"),
        lambda document: document.pop("primaryKeyId"),
        lambda document: document.update(primaryKeyId=2),
        lambda document: document.update(key=[]),
        lambda document: document.update(key={}),
        lambda document: document.update(key=[document["key"][0]] * 2),
        lambda document: document.update(key=["x"]),
        entry(lambda members: members.pop("keyData")),
        entry(lambda members: members.pop("status")),
        entry(lambda members: members.update(status="DISABLED")),
        entry(lambda members: members.update(status=["ENABLED"])),
        entry(lambda members: members.pop("keyId")),
        entry(lambda members: members.update(outputPrefixType="CRUNCHY")),
        entry(lambda members: members.pop("outputPrefixType")),
        data(lambda members: members.pop("typeUrl")),
        data(lambda members: members.update(typeUrl=members["typeUrl"].replace("Streaming", ""))),
        data(lambda members: members.pop("keyMaterialType")),
        data(lambda members: members.update(keyMaterialType="REMOTE")),
        data(lambda members: members.pop("value")),
        data(lambda members: members.update(value=5)),
        data(lambda members: members.update(value=members["value"].rstrip("="))),
        data(lambda members: members.update(value=" " + members["value"])),
        value(b""),
        value(RAW[:-1]),
        value(RAW + b"\0"),
        value(RAW[:11] + b"\x1f" + RAW[12:]),
        *(value(RAW[:at] + bytes((RAW[at] ^ 1,)) + RAW[at + 1 :]) for at in range(12)),
    ],
)
def test_a_keyset_with_anything_missing_or_else_is_refused_without_a_word_of_the_key(
    change: Callable[[Json], object],
) -> None:
    document = json.loads(tink_keyset(KEY))
    change(document)
    told = repr(refused(json.dumps(document).encode()).context()) + str(refused(json.dumps(document).encode()))
    assert VALUE[16:30] not in told


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        tink_keyset(KEY).encode() + b"x",
        tink_keyset(KEY).replace('"status"', '"key": [], "key"', 1).encode(),
        b" " * 70000,
    ],
)
def test_what_is_no_json_object_or_too_long_is_refused(raw: bytes) -> None:
    assert VALUE[16:30] not in str(refused(raw))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_key_or_a_documented_refusal(raw: bytes) -> None:
    refused(raw)
