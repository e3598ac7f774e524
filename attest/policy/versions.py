"""Versions and ranges of versions, as policies state them: numbers with dots, compared number by number.

As text ``9.0`` would come after ``10.0``, and ``570.86`` would not be ``570.086``. So a version is read, or refused.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import JsonValue
from attest.policy.decoder import Decoder, Section, list_of, refuse
from attest.policy.rules import Test

MAX_COMPONENTS = 6
_COMPONENT = r"[0-9]{1,9}"
_HEX_COMPONENT = r"[0-9A-Fa-f]{1,2}"


class Numbering(enum.Enum):
    """The notation of the components of a version."""

    DECIMAL = (10, _COMPONENT, "570.86.10")
    """Drivers: ``570.86.10``."""
    HEX = (16, _HEX_COMPONENT, "96.00.A5.00.01")
    """VBIOS and BIOS: one byte each, ``96.00.A5.00.01`` (nvidia-gpu.md 4.2); case makes no difference."""

    def __init__(self, base: int, component: str, example: str) -> None:
        self.base = base
        self.example = example
        self.grammar = re.compile(rf"{component}(?:\.{component}){{0,{MAX_COMPONENTS - 1}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version with its numbers.

    Attributes:
        text: as it was written.
        components: its numbers, most significant first, without zeros at the end: ``600`` is ``600.0.0``.
    """

    text: str
    components: tuple[int, ...]

    def __str__(self) -> str:
        return self.text


def parse_version(text: str, numbering: Numbering) -> Version | None:
    """Read a version; None for other text, which is in no range."""
    if not numbering.grammar.fullmatch(text):
        return None
    components = [int(part, numbering.base) for part in text.split(".")]
    while components and components[-1] == 0:
        components.pop()
    return Version(text=text, components=tuple(components))


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """The versions from ``at_least`` up to ``below``, which is excluded, None for no bound; or ``exactly`` one."""

    at_least: Version | None
    below: Version | None
    exactly: Version | None

    def holds(self, version: Version) -> bool:
        """Return True if a version is in the range."""
        if self.exactly is not None:
            return version.components == self.exactly.components
        low = self.at_least is None or version.components >= self.at_least.components
        return low and (self.below is None or version.components < self.below.components)

    def __str__(self) -> str:
        parts = (("exactly", self.exactly), ("at least", self.at_least), ("below", self.below))
        return " and ".join(f"{word} {version}" for word, version in parts if version is not None)


def ranges_of(numbering: Numbering) -> Decoder[tuple[VersionRange, ...]]:
    """Decode one range, or a list of ranges of which one has to hold."""

    def one(value: JsonValue, path: str) -> VersionRange:
        return _range(value, path, numbering)

    def decode(value: JsonValue, path: str) -> tuple[VersionRange, ...]:
        return list_of(one)(value, path) if isinstance(value, list) else (one(value, path),)

    return decode


def _range(value: JsonValue, path: str, numbering: Numbering) -> VersionRange:
    """Read one range; one that nothing can be in, or everything, is a mistake."""
    section = Section(value, path)
    version = _version(numbering)
    found = VersionRange(
        at_least=section.stated("at_least", version),
        below=section.stated("below", version),
        exactly=section.stated("exactly", version),
    )
    section.finish()
    bounds = (found.at_least, found.below)
    if (found.exactly is None) == (bounds == (None, None)):
        raise refuse(path, "at_least, below or both of them; or exactly alone", value)
    lowest = found.at_least or Version(text="0", components=())
    if found.below is not None and found.below.components <= lowest.components:
        raise refuse(f"{path}.below", f"a version above {lowest}", str(found.below))
    return found


def _version(numbering: Numbering) -> Decoder[Version]:
    def decode(value: JsonValue, path: str) -> Version:
        version = parse_version(value, numbering) if isinstance(value, str) else None
        if version is None:
            raise refuse(path, f"a version in quotes, such as {numbering.example!r}", value)
        return version

    return decode


def in_ranges(numbering: Numbering, ranges: Iterable[VersionRange]) -> Test:
    """Test that a version, given as text, is in one of these ranges."""
    allowed = tuple(ranges)

    def holds(value: str, _at: datetime) -> bool:
        version = parse_version(value, numbering)
        return version is not None and any(one.holds(version) for one in allowed)

    return holds


def ranges_text(ranges: Iterable[VersionRange]) -> str:
    """Write ranges for people."""
    return ", or ".join(map(str, ranges))
