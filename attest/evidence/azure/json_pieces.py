"""Pieces of the JSON of Azure's forms, each refused by its path."""

from __future__ import annotations

from attest.encoding import JsonValue, base64url_bytes, hex_bytes
from attest.errors import EvidenceError

_CLAUSE = "azure-cvm.md 9"


def object_of(value: JsonValue, path: str, *, allowed: frozenset[str]) -> dict[str, JsonValue]:
    """Return an object that has no members but these."""
    if not isinstance(value, dict):
        raise malformed(path, "an object", kind_of(value))
    strange = sorted(set(value) - allowed)
    if strange:
        raise malformed(path, f"only {', '.join(sorted(allowed))}", f"a member {strange[0][:40]!r}")
    return value


def array_of(value: JsonValue, path: str) -> bytes:
    """Return bytes that are written as an array of numbers."""
    if not isinstance(value, list):
        raise malformed(path, "an array of bytes", kind_of(value))
    for index, byte in enumerate(value):
        if isinstance(byte, bool) or not isinstance(byte, int) or not 0 <= byte <= 255:
            raise malformed(f"{path}[{index}]", "an integer of 0 to 255", "another value")
    return bytes(byte for byte in value if isinstance(byte, int))  # all of them, as the loop found


def hex_of(value: JsonValue, path: str) -> bytes:
    """Return bytes that are written in hex."""
    if not isinstance(value, str):
        raise malformed(path, "hex", kind_of(value))
    return hex_bytes(value, what=path)


def base64_of(value: JsonValue, path: str) -> bytes:
    """Decode base64 of either alphabet, padded to whole groups or not at all; no text is of both alphabets."""
    if not isinstance(value, str):
        raise malformed(path, "base64", kind_of(value))
    body = value.rstrip("=")
    padding = len(value) - len(body)
    both = set("+/") & set(body) and set("-_") & set(body)
    if both or padding > 2 or (padding and len(value) % 4):
        raise malformed(path, "base64 or base64url, padded or not", "a mixture")
    return base64url_bytes(body.replace("+", "-").replace("/", "_"), what=path)


def kind_of(value: JsonValue) -> str:
    """Say what kind of value this is."""
    match value:
        case None:
            return "nothing"
        case str():
            return "text"
        case list():
            return f"an array of {len(value)}"
        case dict():
            return "an object"
        case _:
            return "a number or a boolean"


def malformed(path: str, expected: str, got: str) -> EvidenceError:
    """Build the refusal of a form that does not hold what it should."""
    return EvidenceError(
        f"{path}: expected {expected}, got {got}",
        code="azure-form-malformed",
        field=path,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
