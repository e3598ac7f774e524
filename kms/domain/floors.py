"""Floors of the service and of tenants: minimum firmware levels in addition to the policy of every key. Pure functions.

A floor is one document in canonical JSON with all of its entries. Every change makes the next version. All entries that
have started apply together, so that adding one never makes a floor looser.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NoReturn

from attest.encoding import JsonValue, rfc3339, rfc3339_text
from attest.errors import AttestError, ConfigurationError
from attest.policy import FloorDemand, Policy, floor_policy, read_floor_demand
from attest.release import require_tenant
from kms.domain.canonical_json import canonical_digest
from kms.domain.freezes import require_reason
from kms.domain.permissions import EVERY_TENANT

SCHEMA: Final = "kms.floor/1"
MAX_FLOOR_ENTRIES: Final = 256
MAX_FLOOR_VERSION: Final = 2**31 - 1
_MEMBERS: Final = {"schema", "scope", "version", "entries"}
_ENTRY_MEMBERS: Final = {"product", "component", "value", "from", "because"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorEntry:
    """One demand of a floor.

    Attributes:
        since: start, UTC; None: immediately, regardless of any clock.
        because: the reason, which is part of the denial of a release.
    """

    demand: FloorDemand
    since: datetime | None
    because: str

    def counts(self, at: datetime) -> bool:
        """Return True if it is in force at a moment."""
        return self.since is None or self.since <= at

    def replaces(self, other: FloorEntry) -> bool:
        """Return True if nothing gets looser without the other entry."""
        earlier = self.since is None or (other.since is not None and self.since <= other.since)
        return earlier and self.demand.covers(other.demand)

    def members(self) -> dict[str, JsonValue]:
        """Return it as JSON members."""
        return {
            "product": self.demand.product,
            "component": self.demand.component,
            "value": self.demand.text,
            "from": None if self.since is None else rfc3339_text(self.since),
            "because": self.because,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """One version of the floor of a scope.

    Attributes:
        scope: a tenant, or ``*`` for the whole service.
        version: 0 if none was ever set, then from 1.
        entries: sorted, each once.
    """

    scope: str
    version: int
    entries: tuple[FloorEntry, ...]

    def members(self) -> dict[str, JsonValue]:
        """Return the document."""
        entries: list[JsonValue] = [one.members() for one in self.entries]
        return {"schema": SCHEMA, "scope": self.scope, "version": self.version, "entries": entries}

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical document, hex."""
        return canonical_digest(self.members())

    @property
    def name(self) -> str:
        """Its name in results and reasons."""
        return "floor of the service" if self.scope == EVERY_TENANT else f"floor of the tenant {self.scope!r}"

    def in_force(self, at: datetime) -> tuple[FloorEntry, ...]:
        """Return the entries in force at a moment."""
        return tuple(one for one in self.entries if one.counts(at))

    def policy(self, at: datetime) -> Policy | None:
        """Return the policy that appraises by the entries in force; None if there are none."""
        return self._policy(self.in_force(at))

    @property
    def whole_policy(self) -> Policy | None:
        """The policy of all entries, as if the moment of each had come; None if there are none."""
        return self._policy(self.entries)

    def _policy(self, entries: tuple[FloorEntry, ...]) -> Policy | None:
        if not entries:
            return None
        return floor_policy(self.name, self.version, bytes.fromhex(self.digest), [one.demand for one in entries])

    def with_entries(self, added: Iterable[FloorEntry], *, at: datetime) -> Floor:
        """Return the next version: each new entry takes the place of those that demand as much or more, or are moot.

        A new entry that demands what counts at ``at`` already is left out.
        """
        kept = self.entries
        for new in added:
            if not any(old.demand == new.demand and old.counts(at) and new.counts(at) for old in kept):
                kept = (*(old for old in kept if not (old.demand.covers(new.demand) or new.replaces(old))), new)
        return self._next(kept)

    def _next(self, entries: Iterable[FloorEntry]) -> Floor:
        return Floor(scope=self.scope, version=self.version + 1, entries=tuple(sorted(entries, key=_order)))


def no_floor(scope: str) -> Floor:
    """Return the floor of a scope for which none was ever set."""
    return Floor(scope=scope, version=0, entries=())


def is_raise(before: Floor, then: Floor) -> bool:
    """Return True if every entry is kept, or replaced by one that counts no later and demands at least as much."""
    return all(any(new.replaces(old) for new in then.entries) for old in before.entries)


def require_scope(scope: str) -> str:
    """Return a valid scope.

    Raises:
        ConfigurationError: ``tenant-invalid``.
    """
    return scope if scope == EVERY_TENANT else require_tenant(scope)


def read_floor(document: JsonValue) -> Floor:
    """Read the document, in its one spelling.

    Raises:
        ConfigurationError: ``floor-invalid``, ``reason-invalid`` or ``tenant-invalid``.
    """
    if not isinstance(document, dict) or document.keys() != _MEMBERS or document["schema"] != SCHEMA:
        _invalid("not the members of a floor", ", ".join(sorted(_MEMBERS)))
    scope, version, entries = document["scope"], document["version"], document["entries"]
    if not isinstance(scope, str) or isinstance(version, bool) or not isinstance(version, int):
        _invalid("scope and version", "a text and a number")
    if not 0 <= version <= MAX_FLOOR_VERSION:
        _invalid("version", f"a number up to {MAX_FLOOR_VERSION}")
    if not isinstance(entries, list) or len(entries) > MAX_FLOOR_ENTRIES:
        _invalid("entries", f"a list of at most {MAX_FLOOR_ENTRIES}")
    found = Floor(scope=require_scope(scope), version=version, entries=tuple(map(_entry, entries)))
    if list(found.entries) != sorted(set(found.entries), key=_order):
        _invalid("entries", "each once, sorted")
    if found.members() != document:
        _invalid("entries", "each in its one spelling")
    return found


def read_entry(product: str, component: str, value: str, *, since: datetime | None, because: str) -> FloorEntry:
    """Read one entry.

    Raises:
        ConfigurationError: ``floor-invalid`` or ``reason-invalid``.
    """
    try:
        demand = read_floor_demand(product, component, value)
    except ConfigurationError as exc:
        hint = "such as Genoa:snp=28 or tdx:tcb_status=UpToDate; docs/brakes.md lists products and components"
        raise ConfigurationError(
            f"floor: {exc.message}",
            code="floor-invalid",
            field=exc.field,
            expected=exc.expected,
            got=exc.got,
            hint=hint,
        ) from exc
    return FloorEntry(demand=demand, since=since, because=require_reason(because))


def _entry(value: JsonValue) -> FloorEntry:
    if not isinstance(value, dict) or value.keys() != _ENTRY_MEMBERS:
        _invalid("an entry", f"the members {', '.join(sorted(_ENTRY_MEMBERS))}")
    begin = value["from"]
    texts = {name: member for name, member in value.items() if isinstance(member, str)}
    if texts.keys() | {"from"} != _ENTRY_MEMBERS:
        _invalid("an entry", "texts")
    try:
        since = None if begin is None else rfc3339(texts.get("from", ""), what="from")
    except AttestError as exc:
        _invalid("an entry's member from", "an RFC 3339 time", exc)
    return read_entry(texts["product"], texts["component"], texts["value"], since=since, because=texts["because"])


def _order(one: FloorEntry) -> tuple[str, ...]:
    begin = "" if one.since is None else rfc3339_text(one.since)
    return one.demand.product, one.demand.component, begin, one.demand.text, one.because


def _invalid(problem: str, expected: str, cause: Exception | None = None) -> NoReturn:
    raise ConfigurationError(
        f"floor: {problem}: expected {expected}", code="floor-invalid", field="floor", expected=expected
    ) from cause
