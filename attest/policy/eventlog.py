"""Demands of a policy on an event log that replays to registers: ``event_log`` of ``tdx`` and ``azure``; their rules.

No digest covers the type of an event: the host can file a digest under another kind. So the lists of the boot loader's
registers (RTMR2; PCR8, PCR9 and PCR11 to PCR14) are judged together: once one of them is stated, the others must be
empty unless stated, and every event of the registers has to be an accepted one under some name. The same holds for the
registers with the firmware's boot variables (RTMR0 and RTMR1; PCR1), and for the runtime register (RTMR3), which the
log of a TPM does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from attest.encoding import JsonValue
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, value_text
from attest.evidence.eventlog.facts import EventFact, EventLogFacts
from attest.policy.decoder import (
    ON,
    STRICT_ON,
    Decoder,
    Demand,
    Section,
    demand,
    hex_of,
    hex_text,
    key,
    list_of,
    record_of,
    refuse,
    stated,
    table_of,
    text,
)
from attest.policy.rules import Rule, RuleMaker, Subject, Test, is_

_CLAUSE = "TCG PC Client Platform Firmware Profile"
_EVENT_LOG = "eventlog"
"""The relaxation under which no log is required."""
_STORES = ("pk", "kek", "db", "dbx")
FIRMWARE_LISTS = ("boot_variables", "other_firmware_events")
"""Keys that together name every event of the registers in which firmware measures boot variables and ACPI tables."""
LOADER_LISTS = ("kernel_command_lines", "grub_commands", "load_options", "initrds", "other_loader_events")
"""Keys that together name every event of the boot loader's registers."""
_WORD = re.compile(r"\S+")
_DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogKey:
    """The kind of machine, and so of log, that a key ``event_log`` is about.

    Attributes:
        digest_bytes: of a digest of the log's bank.
        runtime: true if such a log has a register for what the guest's software measures.
    """

    section: str
    digest_bytes: int
    runtime: bool


TDX_LOG = EventLogKey(section="tdx", digest_bytes=48, runtime=True)
AZURE_LOG = EventLogKey(section="azure", digest_bytes=32, runtime=False)


def _word(value: JsonValue, path: str) -> str:
    if not _WORD.fullmatch(text(value, path)):
        raise refuse(path, "text without spaces", value)
    return text(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationEvents:
    """Application events that must and may be there; without ``contents`` anything may follow their two first words."""

    domain: str = field(metadata=key(_word))
    operation: str = field(metadata=key(_word))
    contents: tuple[str, ...] | None = field(default=None, metadata=key(list_of(text)))

    @property
    def head(self) -> str:
        """The part of the event before the content."""
        return f"{self.domain} {self.operation} "

    def __str__(self) -> str:
        what = "anything" if self.contents is None else " or ".join(map(repr, self.contents))
        return f"{self.head}with {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogDemands:
    """Demands on the event log; None: no demand. See docs/policy.md for each key."""

    required: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    secure_boot: Demand[bool] | None = field(default=None, metadata=STRICT_ON)
    signature_stores: Mapping[str, Demand[tuple[str, ...]]]
    boot_variables: Demand[tuple[str, ...]] | None = None
    other_firmware_events: Demand[tuple[str, ...]] | None = None
    kernel_command_lines: Demand[tuple[str, ...]] | None = None
    grub_commands: Demand[tuple[str, ...]] | None = None
    load_options: Demand[tuple[str, ...]] | None = None
    initrds: Demand[tuple[str, ...]] | None = None
    other_loader_events: Demand[tuple[str, ...]] | None = None
    application_events: Demand[tuple[ApplicationEvents, ...]] | None = None
    other_runtime_events: Demand[tuple[str, ...]] | None = None

    @property
    def demands_firmware(self) -> bool:
        """True if every event of the firmware's registers has to be an accepted one."""
        return all(stated(getattr(self, name)) is not None for name in FIRMWARE_LISTS)

    @property
    def lists_loader_events(self) -> bool:
        """True if it states accepted events of the boot loader, even if some lists are relaxed."""
        return any(getattr(self, name) is not None for name in LOADER_LISTS)

    @property
    def demands_loader(self) -> bool:
        """True if it demands an event of the boot loader, and an accepted one."""
        return any(stated(getattr(self, name)) for name in LOADER_LISTS)


# -- reading


def decode_event_log(value: JsonValue, path: str, *, key: EventLogKey) -> EventLogDemands:
    """Read the key ``event_log`` of a section."""
    section = Section(value, path)
    # A text is compared as it was measured, spaces at its ends included.
    lines, digests = list_of(text), list_of(_digest_of(key.digest_bytes))
    firmware = _register(section, {"boot_variables": list_of(hex_text), "other_firmware_events": digests})
    loader = _register(
        section,
        {name: lines if name in ("kernel_command_lines", "grub_commands") else digests for name in LOADER_LISTS},
    )
    runtime: dict[str, Demand[tuple[Any, ...]] | None] = {}
    if key.runtime:
        runtime = _register(
            section, {"application_events": list_of(record_of(ApplicationEvents)), "other_runtime_events": digests}
        )
    stores = table_of(demand(digests), keys=_STORES)
    signature_stores = section.stated("signature_stores", stores) or {}
    registers = {**firmware, **loader, **runtime}
    demands = section.record(EventLogDemands, signature_stores=signature_stores, **registers)
    section.finish()
    return demands


def _register(
    section: Section, lists: Mapping[str, Decoder[tuple[Any, ...]]]
) -> dict[str, Demand[tuple[Any, ...]] | None]:
    """Read the lists that share registers; once one is stated, those that are left out have to be empty."""
    found = {name: section.stated(name, demand(decoder)) for name, decoder in lists.items()}
    if all(wanted is None for wanted in found.values()):
        return found
    return {name: wanted or Demand(()) for name, wanted in found.items()}


def _digest_of(size: int) -> Decoder[str]:
    return lambda value, path: hex_of(size)(value, path).hex()


# -- rules


def event_log_rules(log: EventLogDemands, *, key: EventLogKey) -> Iterator[Rule]:
    """Yield the rules on the event log of an Attester."""
    make = RuleMaker(f"{key.section}.event_log", _CLAIMS.__getitem__)
    settings, executables = (
        partial(make.rule, category=category, subject=Subject.EVENT_LOG, tolerated_by=_EVENT_LOG)
        for category in ("configuration", "executables")
    )
    yield from settings("required", log.required, _comes_along, expected=lambda _: "a log that replays")
    yield from settings("secure_boot", log.secure_boot, is_)
    for store, digests in log.signature_stores.items():
        yield from settings(f"signature_stores.{store}", digests, _all_of, claim=_store(store, key), expected=_all_text)
    for name, shown in _LISTS.items():
        rule = settings if name == "boot_variables" else executables
        claim = _list(name, attrgetter(name), shown)
        yield from rule(name, getattr(log, name), _all_of, claim=claim, expected=_all_text)
    claim = _list("application_events", attrgetter("application_events"), "domain", "operation", "content")
    yield from executables(
        "application_events", log.application_events, _all_application, claim=claim, expected=_application_text
    )


_LISTS: Mapping[str, str] = {
    "boot_variables": "value",
    "other_firmware_events": _DIGEST,
    "kernel_command_lines": "text",
    "grub_commands": "text",
    "load_options": _DIGEST,
    "initrds": _DIGEST,
    "other_loader_events": _DIGEST,
    "other_runtime_events": _DIGEST,
}
"""The compared part of each fact of a list; texts and values are present only where they were hashed."""


def _comes_along(_required: bool) -> Test:  # noqa: FBT001  the demand, which is always true
    return lambda _count, _at: True


def _all_of(accepted: tuple[str, ...]) -> Test:
    """Test that there is an event and every event is an accepted one; with an empty list, that there is no event."""
    known = frozenset(accepted)
    return lambda events, _at: bool(events) is bool(known) and known.issuperset(events)


def _all_application(accepted: tuple[ApplicationEvents, ...]) -> Test:
    """Test that every event is an accepted one, and that each entry is met by one."""
    return lambda events, _at: (
        all(any(_meets(event, entry) for entry in accepted) for event in events)
        and all(any(_meets(event, entry) for event in events) for entry in accepted)
    )


def _meets(event: str, entry: ApplicationEvents) -> bool:
    if not event.startswith(entry.head):
        return False
    return entry.contents is None or event.removeprefix(entry.head) in entry.contents


def _all_text(accepted: tuple[str, ...]) -> str:
    return "at least one, and each of: " + ", ".join(accepted) if accepted else "no such event"


def _application_text(accepted: tuple[ApplicationEvents, ...]) -> str:
    return "each at least once, and no other: " + "; ".join(map(str, accepted)) if accepted else "no such event"


# -- claims


def _claim(name: str, kind: ClaimType, read: Callable[[EventLogFacts], ClaimValue]) -> Claim:
    """Make a claim that is absent when no log was given, or when the log cannot prove it."""

    def get(facts: EventLogFacts | None) -> ClaimValue:
        return None if facts is None else read(facts)

    return Claim(name=f"eventlog.{name}", type=kind, origin=Origin.GUEST, clause=_CLAUSE, get=get)


def _store(name: str, key: EventLogKey) -> Claim:
    def members(facts: EventLogFacts) -> tuple[EventFact, ...] | None:
        stores = facts.signature_stores
        return None if stores is None else tuple(fact for store, fact in stores if store == name)

    return _list(name, members, f"value_sha{8 * key.digest_bytes}")


def _list(name: str, facts_of: Callable[[EventLogFacts], tuple[EventFact, ...] | None], *values: str) -> Claim:
    """Make the claim of a list: of each fact its digest, or these values, with a space between.

    It is absent where the log cannot prove the list, which is not the same as an empty one.
    """

    def read(facts: EventLogFacts) -> ClaimValue:
        found = facts_of(facts)
        return None if found is None else tuple(_compared_text(fact, values) for fact in found)

    return _claim(name, ClaimType.LIST, read)


def _compared_text(fact: EventFact, names: tuple[str, ...]) -> str:
    """Return the compared part of a fact; facts have only values that were hashed."""
    if names == (_DIGEST,):
        return fact.digest.hex()
    values = dict(fact.values)
    return " ".join(value_text(values[name]) for name in names)


def _secure_boot(facts: EventLogFacts) -> ClaimValue:
    """Return the state of Secure Boot; text, which equals neither, when the log does not show it."""
    if facts.secure_boot is None:
        return "the log has no SecureBoot variable of the firmware, or several"
    return dict(facts.secure_boot.values).get("enabled", "the variable SecureBoot has no known value")


_CLAIMS = {
    "required": _claim("event_count", ClaimType.INTEGER, lambda facts: facts.event_count),
    "secure_boot": _claim("secure_boot", ClaimType.BOOLEAN, _secure_boot),
}
