"""Values of the JSON that other projects write evidence in, each refused by its path."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from attest.encoding import JsonValue, base64url_bytes, hex_bytes
from attest.endorsements.malformed import malformed
from attest.errors import EvidenceError

_KINDS: dict[type, str] = {
    type(None): "null or nothing",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """Reader for the values of one family of forms.

    Attributes:
        code: of every error, each an ``EvidenceError``.
        of: text after the path, as for ``malformed``.
    """

    code: str
    clause: str
    check: str | None = None
    of: str = ""

    def object_of(self, value: JsonValue, path: str, *, members: frozenset[str] | None) -> dict[str, JsonValue]:
        """Return an object that has no members but these; None permits any."""
        if not isinstance(value, dict):
            raise self.mistyped(path, "an object", value)
        permitted = set(value) if members is None else members
        unknown = sorted(set(value) - permitted)
        if unknown:
            raise self.malformed(
                f"{path}.{unknown[0][:40]!r}", f"only {', '.join(sorted(permitted))}", "an unknown member"
            )
        return value

    def text_of(self, value: JsonValue, path: str, *, expected: str = "text") -> str:
        """Return text."""
        if not isinstance(value, str):
            raise self.mistyped(path, expected, value)
        return value

    def base64_of(self, value: JsonValue, path: str) -> bytes:
        """Return the bytes of base64 of either alphabet, padded to whole groups or not at all."""
        text = self.text_of(value, path, expected="base64")
        body = text.rstrip("=")
        padding = len(text) - len(body)
        both = set("+/") & set(body) and set("-_") & set(body)
        if both or padding > 2 or (padding and len(text) % 4):
            raise self.malformed(path, "base64 or base64url, padded or not", "a mixture")
        return base64url_bytes(body.replace("+", "-").replace("/", "_"), what=path)

    def flag_of(self, value: JsonValue, path: str) -> bool:
        """Return a boolean."""
        if not isinstance(value, bool):
            raise self.mistyped(path, "a boolean", value)
        return value

    def array_of(self, value: JsonValue, path: str, *, most: int) -> list[JsonValue]:
        """Return an array of at most this many values."""
        if not isinstance(value, list):
            raise self.mistyped(path, f"an array of at most {most} values", value)
        if len(value) > most:
            raise self.malformed(path, f"an array of at most {most} values", f"{len(value)}")
        return value

    def number_of(self, value: JsonValue, path: str, *, size: int) -> int:
        """Return an integer that fits ``size`` bytes."""
        limit = (1 << 8 * size) - 1
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.mistyped(path, f"an integer of 0 to {limit}", value)
        if not 0 <= value <= limit:
            raise self.malformed(path, f"an integer of 0 to {limit}", "another integer")
        return value

    def bytes_of(self, value: JsonValue, path: str, *, sizes: tuple[int, ...] | None = None) -> bytes:
        """Return the bytes of an array of numbers from 0 to 255, one a byte."""
        if not isinstance(value, list):
            raise self.mistyped(path, "an array of bytes", value)
        if sizes is not None and len(value) not in sizes:
            raise self.malformed(path, f"{' or '.join(map(str, sizes))} bytes", f"{len(value)}")
        with suppress(TypeError, ValueError):  # the common case, at once; other values are named below
            if bool not in set(map(type, value)):
                return bytes(cast("list[int]", value))
        return bytes(self.number_of(byte, f"{path}[{index}]", size=1) for index, byte in enumerate(value))

    def hex_of(self, value: JsonValue, path: str, *, sizes: tuple[int, ...] | None = None) -> bytes:
        """Return the bytes of hex text, of one of these sizes."""
        text = self.text_of(value, path, expected="hex")
        try:
            data = hex_bytes(text, what=path)
        except EvidenceError as exc:
            raise self.malformed(path, "pairs of hex digits", f"{len(text)} characters of other text") from exc
        if sizes is not None and len(data) not in sizes:
            raise self.malformed(path, f"{' or '.join(map(str, sizes))} bytes of hex", f"{len(data)} bytes")
        return data

    def malformed(self, path: str, expected: str, got: str) -> EvidenceError:
        """Return the error for a value that is not of the form."""
        return malformed(path, expected, got, code=self.code, clause=self.clause, check=self.check, of=self.of)

    def mistyped(self, path: str, expected: str, value: JsonValue) -> EvidenceError:
        """Return the error for a value of another type."""
        return self.malformed(path, expected, _KINDS[type(value)])
