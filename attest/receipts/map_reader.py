"""Reader for the maps of receipts: each value by its name, with its kind and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attest.errors import EvidenceError

Name = int | str
MAX_UINT: Final = (1 << 53) - 1
"""Integers of JSON are exact up to this (RFC 7493)."""
DIGEST_BYTES: Final = 32
_DIGEST: Final = range(DIGEST_BYTES, DIGEST_BYTES + 1)
_CLAUSE: Final = "docs/receipts.md"
HINT: Final = "get the receipt again from the service; it may have been cut or converted on the way"


class MapReader:
    """A decoded map with exactly the expected names.

    Args:
        value: what was decoded.
        path: of the map, for errors.
        names: that must be there.
        optional: that may be there.

    Raises:
        EvidenceError: ``receipt-malformed``, here and in every method.
    """

    def __init__(
        self, value: object, path: str, names: frozenset[Name], *, optional: frozenset[Name] = frozenset()
    ) -> None:
        if not isinstance(value, Mapping):
            raise malformed(path, "a map", "another type")
        missing, unknown = names - value.keys(), value.keys() - names - optional
        if missing or unknown:
            wrong = [f"no {str(name)[:40]!r}" for name in missing] + [repr(str(name)[:40]) for name in unknown]
            raise malformed(path, f"exactly {', '.join(sorted(map(str, names)))}", ", ".join(sorted(wrong))[:200])
        self._members: Mapping[Name, object] = value
        self._path = path

    def at(self, name: Name) -> str:
        """Return the path of a member."""
        return f"{self._path}.{name}"

    def value(self, name: Name) -> object:
        """Return a member as decoded, or None."""
        return self._members.get(name)

    def octets(self, name: Name, sizes: range = _DIGEST) -> bytes:
        """Return a byte string, by default one of 32 bytes."""
        value = self._members[name]
        if not isinstance(value, bytes) or len(value) not in sizes:
            got = f"{len(value)} bytes" if isinstance(value, bytes) else "another type"
            raise malformed(self.at(name), _sizes(sizes), got)
        return value

    def octets_or_none(self, name: Name, sizes: range = _DIGEST) -> bytes | None:
        """Return a byte string, or None where the member is absent or null."""
        return None if self._members.get(name) is None else self.octets(name, sizes)

    def text(self, name: Name, most: int, *, empty: bool = False) -> str:
        """Return printable text of at most so many characters."""
        value = self._members[name]
        if not isinstance(value, str) or not (value or empty) or len(value) > most or not value.isprintable():
            raise malformed(self.at(name), f"{0 if empty else 1} to {most} printable characters", "something else")
        return value

    def text_or_none(self, name: Name, most: int) -> str | None:
        """Return text, or None where the member is null."""
        return None if self._members[name] is None else self.text(name, most)

    def unsigned(self, name: Name, most: int = MAX_UINT) -> int:
        """Return an integer from 0."""
        value = self._members[name]
        if type(value) is not int or not 0 <= value <= most:
            raise malformed(self.at(name), f"an integer from 0 to {most}", "something else")
        return value

    def flag(self, name: Name) -> bool:
        """Return a truth value."""
        value = self._members[name]
        if not isinstance(value, bool):
            raise malformed(self.at(name), "true or false", "another type")
        return value

    def sequence(self, name: Name, most: int, *, least: int = 0) -> Sequence[object]:
        """Return an array of at most so many members."""
        value = self._members[name]
        if not isinstance(value, list | tuple) or not least <= len(value) <= most:
            raise malformed(self.at(name), f"an array of {least} to {most} members", "something else")
        return value


def malformed(path: str, expected: str, got: str) -> EvidenceError:
    """Return the error for a receipt, or a part of its chain, that is not in the form of the specification."""
    return EvidenceError(
        f"{path}: expected {expected}, got {got}",
        code="receipt-malformed",
        field=path,
        expected=expected,
        got=got,
        clause=_CLAUSE,
        hint=HINT,
    )


def _sizes(sizes: range) -> str:
    least, most = sizes.start, sizes.stop - 1
    return f"{least} bytes" if least == most else f"{least} to {most} bytes"
