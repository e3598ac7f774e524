"""CBOR of tokens: maps with integer or text keys, strictly read.

``attest.encoding`` has text keys only, as this project's own documents do; claims of CWT and headers of COSE have
numbers. Not all Verifiers sort their maps, and COSE does not require it. So the reader accepts any order of keys, and
refuses every other second spelling: duplicate keys, integers and lengths that could be shorter, indefinite lengths,
tags, floats, and trailing bytes. The writer sorts (RFC 8949, section 4.2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import cbor2

from attest.encoding import cbor_bytes, require_values
from attest.errors import EvidenceError

ClaimsValue: TypeAlias = (
    "bool | int | str | bytes | list[ClaimsValue] | tuple[ClaimsValue, ...] | Mapping[int | str, ClaimsValue] | None"
)
CborClaims: TypeAlias = Mapping[int | str, ClaimsValue]

MAX_DEPTH = 16


def claims_bytes(value: ClaimsValue) -> bytes:
    """Encode in core deterministic CBOR.

    Raises:
        TypeError: a value or key of another type.
        ValueError: an integer outside 64 bits.
    """
    return _encode(value, ordered=True)


def claims_value(data: bytes, *, what: str, ordered: bool = False) -> ClaimsValue:
    """Decode; everything has one spelling, but keys may be in any order unless ``ordered``.

    Raises:
        EvidenceError: ``cbor-invalid``.
    """
    try:
        require_values(data)
        value: ClaimsValue = cbor2.loads(data, max_depth=MAX_DEPTH, allow_indefinite=False)
        again = _encode(value, ordered=ordered)
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise EvidenceError(f"{what} is not strict CBOR: {exc}", code="cbor-invalid", field=what) from exc
    if again != data:
        raise EvidenceError(f"{what} is not strict CBOR: it encodes differently", code="cbor-invalid", field=what)
    return value


def _encode(value: ClaimsValue, *, ordered: bool) -> bytes:
    if isinstance(value, Mapping):
        pairs = [(_key(key), _encode(member, ordered=ordered)) for key, member in value.items()]
        return _head(5, len(pairs)) + b"".join(key + member for key, member in (sorted(pairs) if ordered else pairs))
    if isinstance(value, list | tuple):
        return _head(4, len(value)) + b"".join(_encode(member, ordered=ordered) for member in value)
    return cbor_bytes(value)


def _key(key: int | str) -> bytes:
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise TypeError(f"map keys are integers or text, not {type(key).__name__}")
    return cbor_bytes(key)


def _head(major: int, count: int) -> bytes:
    """Return the head of an array or map: that of an integer of the same size, under another major type."""
    head = cbor_bytes(count)
    return bytes([head[0] | major << 5]) + head[1:]
