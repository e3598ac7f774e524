"""The table of firmware floors: the levels that vendors' bulletins name, each with its date, advisory and source.

The table demands nothing: policies and floors do. It is a document like a policy: closed, versioned, known by the
digest of its canonical JSON, and signed the same way. One is built in; an operator's own of a higher version takes its
place.

Levels of a component can have several lines: AMD counts microcode separately for each model and stepping of a product,
and NVIDIA fixes each branch of its driver. An entry for such a line names it, and applies to nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue
from attest.errors import InvalidValueError
from attest.policy.decoder import Section, choice, integer, list_of, moment, refuse, text
from attest.policy.document import canonical_json
from attest.policy.floors import FLOOR_COMPONENTS, FloorDemand, read_floor_demand

FIRMWARE_SCHEMA: Final = "attest.firmware-table/1"
BUILT_IN_DIGEST: Final = "362129ea9d7b3bcc5eac3427a74a957de688cd408d5f84415b6534151ebc030b"
"""SHA-256 of the canonical JSON of the built-in table, in hex."""
MAX_TABLE_BYTES: Final = 1024 * 1024
_HIGHEST_VERSION: Final = (1 << 53) - 1
_DATE: Final = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")
_UNORDERED: Final = ("tcb_status", "advisory")
"""Components of floors that have no levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareLine:
    """The processors that an entry covers, by CPUID; the whole product if nothing is stated."""

    models: tuple[int, int] | None = None
    stepping: int | None = None

    @property
    def everything(self) -> bool:
        """True if the entry holds for the whole product."""
        return self == FirmwareLine()

    def has(self, cpuid: Mapping[str, int] | None) -> bool:
        """Return True if a processor is of this line; without its CPUID it is only known to be of the product."""
        if self.everything or cpuid is None:
            return self.everything
        low, high = self.models or (0, 255)
        return low <= cpuid["model"] <= high and self.stepping in (None, cpuid["stepping"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareEntry:
    """One bulletin on one component of one product.

    Attributes:
        demand: the product, its component, and the first level with the fix.
        since: the first level that the entry covers, such as that of a driver's branch; None for any.
        published: date of the bulletin, or its month or year where the source says no more.
        source: address of the bulletin.
        read_in: the document in which the level was read.
    """

    demand: FloorDemand
    line: FirmwareLine
    since: FloorDemand | None
    published: str
    advisory: str
    fixes: str
    source: str
    read_in: str

    def speaks_of(self, found: FloorDemand) -> bool:
        """Return True if the entry covers a level."""
        same = (found.product, found.component) == (self.demand.product, self.demand.component)
        return same and (self.since is None or found.covers(self.since))

    def __str__(self) -> str:
        return f"{self.advisory} ({self.demand.text}, {self.published})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareTable:
    """A table, decoded; ``digest`` is the SHA-256 of its canonical JSON."""

    name: str
    version: int
    issued: datetime
    entries: tuple[FirmwareEntry, ...]
    digest: bytes

    def unmet(self, found: FloorDemand, *, cpuid: Mapping[str, int] | None = None) -> tuple[FirmwareEntry, ...]:
        """Return the entries whose fix a level does not have, the highest level first."""
        entries = [one for one in self.entries if one.line.has(cpuid) and one.speaks_of(found)]
        return ranked(one for one in entries if not found.covers(one.demand))

    def of(self, product: str, component: str) -> Iterator[FirmwareEntry]:
        """Yield the entries on one component."""
        return (one for one in self.entries if (one.demand.product, one.demand.component) == (product, component))


def ranked(entries: Iterable[FirmwareEntry]) -> tuple[FirmwareEntry, ...]:
    """Return entries on one component by their level, the highest first."""
    found: list[FirmwareEntry] = []
    for entry in entries:
        at = next((index for index, one in enumerate(found) if not one.demand.covers(entry.demand)), len(found))
        found.insert(at, entry)
    return tuple(found)


def decode_firmware_table(document: JsonValue) -> FirmwareTable:
    """Read a table.

    Raises:
        ConfigurationError: ``policy-invalid``, with the path of the value and what was expected there.
    """
    section = Section(document, "")
    section.required("schema", choice([FIRMWARE_SCHEMA]))
    table = FirmwareTable(
        name=section.required("name", text),
        version=section.required("version", integer(1, _HIGHEST_VERSION)),
        issued=section.required("issued", moment),
        entries=section.required("entries", list_of(_entry)),
        digest=sha256(canonical_json(document)).digest(),
    )
    section.finish()
    return table


def _entry(value: JsonValue, path: str) -> FirmwareEntry:
    section = Section(value, path)
    product = section.required("product", choice(FLOOR_COMPONENTS))
    ordered = [name for name in FLOOR_COMPONENTS[product] if name not in _UNORDERED]
    component = section.required("component", choice(ordered))

    def level(value: JsonValue, path: str) -> FloorDemand:
        try:
            return read_floor_demand(product, component, text(value, path))
        except InvalidValueError as exc:
            raise refuse(path, exc.expected or "a level of this component", value) from exc

    entry = FirmwareEntry(
        demand=section.required("level", level),
        line=FirmwareLine(
            models=section.stated("models", _models), stepping=section.stated("stepping", integer(0, 255))
        ),
        since=section.stated("from", level),
        published=section.required("published", _date),
        advisory=section.required("advisory", text),
        fixes=section.required("fixes", text),
        source=section.required("source", text),
        read_in=section.required("read_in", text),
    )
    section.finish()
    return entry


def _models(value: JsonValue, path: str) -> tuple[int, int]:
    found = list_of(integer(0, 255))(value, path)
    if len(found) != 2 or found[0] > found[1]:
        raise refuse(path, "the first and the last model", value)
    return found[0], found[1]


def _date(value: JsonValue, path: str) -> str:
    found = text(value, path)
    if not _DATE.fullmatch(found):
        raise refuse(path, "a date such as 2026-01-31, or its month or year", value)
    return found
