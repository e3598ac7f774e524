"""Pieces of the JSON that peers write, each refused by its path."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import EvidenceError


def object_of(value: JsonValue, path: str, *, members: frozenset[str]) -> dict[str, JsonValue]:
    """Return an object that has these members and no others."""
    if not isinstance(value, dict):
        raise malformed(path, "an object", kind_of(value))
    unknown = sorted(set(value) - members)
    if unknown:
        raise malformed(f"{path}.{unknown[0][:40]!r}", f"only {', '.join(sorted(members))}", "an unknown member")
    return value


def text_of(value: JsonValue, path: str) -> str:
    """Return text."""
    if not isinstance(value, str):
        raise malformed(path, "text", kind_of(value))
    return value


def number_of(value: JsonValue, path: str, *, size: int) -> int:
    """Return an integer that fits ``size`` bytes."""
    limit = (1 << 8 * size) - 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise malformed(path, f"an integer of 0 to {limit}", kind_of(value))
    if not 0 <= value <= limit:
        raise malformed(path, f"an integer of 0 to {limit}", "another integer")
    return value


def bytes_of(value: JsonValue, path: str, *, sizes: tuple[int, ...] | None = None) -> bytes:
    """Read an array of numbers from 0 to 255, one a byte."""
    if not isinstance(value, list):
        raise malformed(path, "an array of bytes", kind_of(value))
    if sizes is not None and len(value) not in sizes:
        raise malformed(path, f"{' or '.join(map(str, sizes))} bytes", f"{len(value)}")
    return bytes(number_of(byte, f"{path}[{index}]", size=1) for index, byte in enumerate(value))


def kind_of(value: JsonValue) -> str:
    """Say what kind of value this is."""
    match value:
        case None:
            return "null or nothing"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
        case _:
            return "an object"


def malformed(path: str, expected: str, got: str) -> EvidenceError:
    """Build the refusal of a form that does not hold what it should."""
    return EvidenceError(
        f"{path}: expected {expected}, got {got}",
        code="peer-form-malformed",
        field=path,
        expected=expected,
        got=got,
        clause="sev-snp.md 18",
    )
