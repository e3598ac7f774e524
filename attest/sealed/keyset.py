"""The data key as a Tink keyset, for use with any Tink library.

The keyset contains the key: keep it secret, and never log it.

Spec: Tink, ``tink.proto`` (its JSON form) and ``aes_gcm_hkdf_streaming.proto``.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from attest.encoding import JsonValue, base64_bytes, json_value
from attest.errors import EvidenceError, SealedFileError
from attest.sealed.cipher import KEY_BYTES

MAX_KEYSET_BYTES = 64 << 10
"""Own limit; a keyset with one key has 400."""
_TYPE_URL: Final = "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey"
_KEY_ID = 1
_PARAMETERS = bytes.fromhex("12080880804010201803")
"""Field 2, 8 bytes: segments of 1 MiB (field 1), derived keys of 32 bytes (2), SHA-256 (3). Version 0 is omitted."""
_KEY_VALUE = bytes((0x1A, KEY_BYTES))
"""Field 3: the key's bytes."""


def tink_keyset(key: bytes) -> str:
    """Return the JSON keyset with this data key, 32 bytes, for Tink libraries.

    Raises:
        ValueError: a key of another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a data key has {KEY_BYTES} bytes, not {len(key)}")
    data = {
        "typeUrl": _TYPE_URL,
        "value": base64.b64encode(_PARAMETERS + _KEY_VALUE + key).decode(),
        "keyMaterialType": "SYMMETRIC",
    }
    # Streaming encryption has no output prefix, which TINK would otherwise select.
    entry = {"keyData": data, "status": "ENABLED", "keyId": _KEY_ID, "outputPrefixType": "RAW"}
    return json.dumps({"primaryKeyId": _KEY_ID, "key": [entry]}, indent=2) + "\n"


def key_from_tink(keyset: bytes) -> bytes:
    """Return the data key of a JSON keyset (UTF-8, not encrypted) with exactly one key of this kind.

    Raises:
        SealedFileError: ``sealed-keyset-invalid``: another form. The message contains no part of it.
    """
    if len(keyset) > MAX_KEYSET_BYTES:
        raise _invalid("keyset", f"at most {MAX_KEYSET_BYTES} bytes")
    try:
        document = json_value(keyset, what="keyset")
    except EvidenceError:
        # Not chained: the parser may quote its input, which may be a key.
        raise _invalid("keyset", "a JSON document") from None
    members = _members(document, "keyset")
    keys = members.get("key")
    if not isinstance(keys, list) or len(keys) != 1:
        raise _invalid("keyset.key", "exactly one key")
    entry = _members(keys[0], "keyset.key[0]")
    _require(entry, "status", ("ENABLED",), "keyset.key[0]")
    _require(entry, "outputPrefixType", ("RAW", "TINK"), "keyset.key[0]")
    if members.get("primaryKeyId") != entry.get("keyId") or entry.get("keyId") is None:
        raise _invalid("keyset.primaryKeyId", "the id of the one key")
    data = _members(entry.get("keyData"), "keyset.key[0].keyData")
    _require(data, "typeUrl", (_TYPE_URL,), "keyset.key[0].keyData")
    _require(data, "keyMaterialType", ("SYMMETRIC",), "keyset.key[0].keyData")
    return _key(data.get("value"))


def _key(value: JsonValue) -> bytes:
    where = "keyset.key[0].keyData.value"
    if not isinstance(value, str):
        raise _invalid(where, "base64 text")
    try:
        raw = base64_bytes(value, what=where)
    except EvidenceError:
        raise _invalid(where, "base64 with padding") from None
    start = _PARAMETERS + _KEY_VALUE
    if len(raw) != len(start) + KEY_BYTES or not raw.startswith(start):
        raise _invalid(where, "a key of the parameter set AES256_GCM_HKDF_1MB with 32 bytes")
    return raw[len(start) :]


def _members(value: JsonValue, where: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _invalid(where, "an object")
    return value


def _require(members: dict[str, JsonValue], name: str, accepted: tuple[str, ...], where: str) -> None:
    if members.get(name) not in accepted:
        raise _invalid(f"{where}.{name}", " or ".join(accepted))


def _invalid(field: str, expected: str) -> SealedFileError:
    return SealedFileError(
        f"not a Tink keyset that opens sealed files: expected {expected} ({field})",
        code="sealed-keyset-invalid",
        field=field,
        expected=expected,
        clause="Tink, tink.proto",
        hint="expected is one key of AES256_GCM_HKDF_1MB in JSON, not encrypted",
    )
