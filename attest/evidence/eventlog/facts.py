"""What a verified log states about the boot, for policies and for ``claims.eventlog``.

A type is not covered by any digest, so each fact is read only from the registers in which it is measured. The
variables of Secure Boot count only in front of the first separator of RTMR0: until then nothing but the measured
firmware extends it. The separator is found by its digest, which nobody can relabel.

A text is given only where it was hashed. Otherwise the digest is the fact, and says that it is ``unverified``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha384
from typing import TypeAlias
from uuid import UUID

from attest.encoding import JsonValue
from attest.evidence.eventlog.content import (
    UefiVariable,
    Verification,
    application_event,
    grub_text,
    is_extended,
    tag_of,
    uefi_variable,
)
from attest.evidence.eventlog.replay import VerifiedEventLog
from attest.evidence.eventlog.structure import ParsedEvent
from attest.evidence.eventlog.vocabulary import (
    EV_EFI_BOOT_SERVICES_APPLICATION,
    EV_EFI_VARIABLE_AUTHORITY,
    EV_EFI_VARIABLE_BOOT,
    EV_EFI_VARIABLE_BOOT2,
    EV_EFI_VARIABLE_DRIVER_CONFIG,
    EV_SEPARATOR,
)

__all__ = ["EventFact", "EventLogFacts", "facts_document", "facts_of"]

_GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
_IMAGE_SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
_SECURE_BOOT = (_GLOBAL, "SecureBoot")
_SIGNATURE_STORES = {
    (_GLOBAL, "PK"): "pk",
    (_GLOBAL, "KEK"): "kek",
    (_IMAGE_SECURITY, "db"): "db",
    (_IMAGE_SECURITY, "dbx"): "dbx",
}
_STUB_INITRD = 0x8F3B22EC
_STUB_LOAD_OPTIONS = 0x8F3B22ED
_SEPARATOR_DIGEST = sha384(bytes(4)).digest()
_FIRMWARE, _BOOT, _LOADER, _RUNTIME = "RTMR0", "RTMR1", "RTMR2", "RTMR3"

_LISTS = (
    "authorities",
    "boot_variables",
    "boot_applications",
    "kernel_command_lines",
    "grub_commands",
    "load_options",
    "initrds",
    "other_loader_events",
    "application_events",
    "other_runtime_events",
)

_Values: TypeAlias = "tuple[tuple[str, str | int | bool], ...]"
_Pair: TypeAlias = "tuple[ParsedEvent, Verification]"
_Read: TypeAlias = "Callable[[ParsedEvent, Verification], _Values | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFact:
    """One event that a fact rests on.

    Attributes:
        event: its number in the log.
        register: where it is measured.
        digest: as replayed, 48 bytes; always proven.
        verification: how far the digest vouches for ``values``.
        values: what the hashed data says; empty where it was not hashed.
    """

    event: int
    register: str
    digest: bytes
    verification: Verification
    values: _Values = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogFacts:
    """Everything that a verified log states. Nothing in here rests on data that was not hashed.

    Attributes:
        event_count: records behind the header.
        secure_boot: ``enabled``; None when the log has no SecureBoot variable of the firmware, or several.
        signature_stores: ``pk``, ``kek``, ``db`` and ``dbx``, in the order measured.
        authorities: variables that vouched for a boot loader.
        boot_variables: values of BootOrder and Boot####, in the order measured; their names are not hashed.
        boot_applications: images that the firmware started: PE digests.
        kernel_command_lines: texts of GRUB; the prefix that makes one a command line is not hashed.
        grub_commands: texts of GRUB, all the others.
        load_options: digests of the command lines that Linux's EFI stub measured.
        initrds: digests of what Linux's EFI stub measured as initial RAM disk.
        other_loader_events: every other event of the boot loader's register, by digest.
        application_events: ``domain``, ``operation`` and ``content`` of AAEL events in RTMR3.
        other_runtime_events: every other event of RTMR3, by digest.
    """

    event_count: int
    secure_boot: EventFact | None
    signature_stores: tuple[tuple[str, EventFact], ...]
    authorities: tuple[EventFact, ...]
    boot_variables: tuple[EventFact, ...]
    boot_applications: tuple[EventFact, ...]
    kernel_command_lines: tuple[EventFact, ...]
    grub_commands: tuple[EventFact, ...]
    load_options: tuple[EventFact, ...]
    initrds: tuple[EventFact, ...]
    other_loader_events: tuple[EventFact, ...]
    application_events: tuple[EventFact, ...]
    other_runtime_events: tuple[EventFact, ...]


def facts_of(verified: VerifiedEventLog) -> EventLogFacts:
    """Read the facts of a verified log."""
    log = verified.log
    pairs = tuple(
        (event, how)
        for event, how in zip(log.events, verified.verifications, strict=True)
        if is_extended(event, log.kind)
    )
    return EventLogFacts(
        event_count=len(log.events),
        secure_boot=_secure_boot(pairs),
        signature_stores=_signature_stores(pairs),
        authorities=_all(pairs, (_FIRMWARE,), _authority),
        boot_variables=_all(pairs, (_FIRMWARE, _BOOT), _boot_variable),
        boot_applications=_all(pairs, (_FIRMWARE, _BOOT), _boot_application),
        kernel_command_lines=_all(pairs, (_LOADER,), _kernel_command_line),
        grub_commands=_all(pairs, (_LOADER,), _grub_command),
        load_options=_all(pairs, (_LOADER,), _tagged(_STUB_LOAD_OPTIONS)),
        initrds=_all(pairs, (_LOADER,), _tagged(_STUB_INITRD)),
        other_loader_events=_all(pairs, (_LOADER,), _other_of_loader),
        application_events=_all(pairs, (_RUNTIME,), _application),
        other_runtime_events=_all(pairs, (_RUNTIME,), _other_of_runtime),
    )


def _all(pairs: tuple[_Pair, ...], registers: tuple[str, ...], read: _Read) -> tuple[EventFact, ...]:
    """Make a fact of each event of these registers that is of the kind."""
    found = ((pair, read(*pair)) for pair in pairs if pair[0].register in registers)
    return tuple(_fact(*pair, values) for pair, values in found if values is not None)


def _fact(event: ParsedEvent, how: Verification, values: _Values) -> EventFact:
    return EventFact(event=event.number, register=event.register, digest=event.digest, verification=how, values=values)


# -- the firmware's variables


def _firmware_variables(pairs: tuple[_Pair, ...]) -> Iterator[tuple[ParsedEvent, Verification, UefiVariable]]:
    """Yield the variables that the firmware measured before anything else could extend its register."""
    for event, how in pairs:
        if event.register != _FIRMWARE:
            continue
        if event.type == EV_SEPARATOR or event.digest == _SEPARATOR_DIGEST:
            return
        variable = uefi_variable(event.data) if event.type == EV_EFI_VARIABLE_DRIVER_CONFIG else None
        if variable is not None:
            yield event, how, variable


def _secure_boot(pairs: tuple[_Pair, ...]) -> EventFact | None:
    """Read the state; two answers are no answer, and an empty variable is one that the firmware does not have."""
    found = [found for found in _firmware_variables(pairs) if (found[2].guid, found[2].name) == _SECURE_BOOT]
    if len(found) != 1:
        return None
    event, how, variable = found[0]
    enabled = {b"": False, b"\0": False, b"\1": True}.get(variable.value)
    return _fact(event, how, () if enabled is None else (("enabled", enabled),))


def _signature_stores(pairs: tuple[_Pair, ...]) -> tuple[tuple[str, EventFact], ...]:
    """Give size and digest: the values themselves are kilobytes of certificates."""
    return tuple(
        (
            _SIGNATURE_STORES[variable.guid, variable.name],
            _fact(event, how, (("size", len(variable.value)), ("value_sha384", sha384(variable.value).hexdigest()))),
        )
        for event, how, variable in _firmware_variables(pairs)
        if (variable.guid, variable.name) in _SIGNATURE_STORES
    )


# -- events of one kind: what the hashed data says, or None for an event of another kind


def _authority(event: ParsedEvent, _: Verification) -> _Values | None:
    if event.type != EV_EFI_VARIABLE_AUTHORITY:
        return None
    variable = uefi_variable(event.data)
    if variable is None:
        return ()
    return (
        ("guid", str(variable.guid)),
        ("name", variable.name),
        ("size", len(variable.value)),
        ("value_sha384", sha384(variable.value).hexdigest()),
    )


def _boot_variable(event: ParsedEvent, _: Verification) -> _Values | None:
    """Leave the name out: older profiles do not hash it."""
    if event.type not in (EV_EFI_VARIABLE_BOOT, EV_EFI_VARIABLE_BOOT2):
        return None
    variable = uefi_variable(event.data)
    return None if variable is None else (("value", variable.value.hex()),)


def _boot_application(event: ParsedEvent, _: Verification) -> _Values | None:
    return () if event.type == EV_EFI_BOOT_SERVICES_APPLICATION else None


def _kernel_command_line(event: ParsedEvent, how: Verification) -> _Values | None:
    text = grub_text(event)
    if how is Verification.UNVERIFIED or text is None or not text.is_command_line:
        return None
    return (("text", text.text),)


def _grub_command(event: ParsedEvent, how: Verification) -> _Values | None:
    text = grub_text(event)
    if how is Verification.UNVERIFIED or text is None or text.is_command_line:
        return None
    return (("text", text.text),)


def _tagged(tag: int) -> _Read:
    return lambda event, _: () if tag_of(event) == tag else None


def _other_of_loader(event: ParsedEvent, how: Verification) -> _Values | None:
    """Take what the other lists leave out, so that together they hold the whole register."""
    is_text = how is not Verification.UNVERIFIED and grub_text(event) is not None
    return None if is_text or tag_of(event) in (_STUB_INITRD, _STUB_LOAD_OPTIONS) else ()


def _application(event: ParsedEvent, _: Verification) -> _Values | None:
    said = application_event(event)
    if said is None:
        return None
    return (("domain", said.domain), ("operation", said.operation), ("content", said.content))


def _other_of_runtime(event: ParsedEvent, _: Verification) -> _Values | None:
    return () if application_event(event) is None else None


# -- as JSON


def facts_document(facts: EventLogFacts) -> dict[str, JsonValue]:
    """Return the facts as ``claims.eventlog`` has them; docs/event-logs.md explains each name."""
    document: dict[str, JsonValue] = {"event_count": facts.event_count}
    if facts.secure_boot is not None:
        document["secure_boot"] = _document(facts.secure_boot)
    for store in _SIGNATURE_STORES.values():
        found: list[JsonValue] = [_document(fact) for name, fact in facts.signature_stores if name == store]
        document[store] = found
    for name in _LISTS:
        members: tuple[EventFact, ...] = getattr(facts, name)
        document[name] = [_document(fact) for fact in members]
    return document


def _document(fact: EventFact) -> JsonValue:
    return {
        "event": fact.event,
        "register": fact.register,
        "digest": fact.digest.hex(),
        "verification": str(fact.verification),
        **dict(fact.values),
    }
