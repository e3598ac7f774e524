"""Facts of a verified log about the boot, for policies and for ``claims.eventlog``.

A type is not covered by any digest, so each fact is read only from the registers in which it is measured. The
variables of Secure Boot count only in front of the first separator of their register: until then nothing but the
measured firmware extends it. The separator is found by its digest, which cannot be relabelled.

A text is given only where it was hashed. Otherwise the digest is the fact, and says that it is ``unverified``.
A list is absent, and not empty, when a register that it is read from was not proven: it might have had events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TypeAlias
from uuid import UUID

from attest.encoding import JsonValue
from attest.evidence.eventlog.content import (
    UefiVariable,
    Verification,
    application_event,
    grub_text,
    is_extended,
    stub_text,
    tag_of,
    uefi_variable,
)
from attest.evidence.eventlog.kinds import CCEL, TCG2_SHA256, LogKind
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
_SEPARATORS = (bytes(4), b"\xff" * 4, b"\1\0\0\0")
"""Allowed contents of a separator; the last one means that the firmware failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Registers in which each kind of fact is measured; none, when logs of this kind cannot prove it.

    Attributes:
        secure_boot: state and key stores of Secure Boot, and the variables that authenticated images.
        stub: kernel command lines that systemd's EFI stub and boot menu measured.
        kernel_stub: measurements of Linux's EFI stub.
        loader: everything that boot loaders measure, these texts included.
        runtime: what the guest's software measures, into the log.
    """

    secure_boot: str
    boot_variables: tuple[str, ...]
    applications: tuple[str, ...]
    grub: tuple[str, ...]
    stub: tuple[str, ...]
    kernel_stub: tuple[str, ...]
    loader: tuple[str, ...]
    runtime: tuple[str, ...]


_PLACES: Mapping[str, _Places] = {
    CCEL.name: _Places(
        secure_boot="RTMR0",
        boot_variables=("RTMR0", "RTMR1"),
        applications=("RTMR0", "RTMR1"),
        grub=("RTMR2",),
        stub=(),  # Others measure into this register too: its texts stay among the other events, by digest.
        kernel_stub=("RTMR2",),
        loader=("RTMR2",),
        runtime=("RTMR3",),
    ),
    TCG2_SHA256.name: _Places(
        secure_boot="PCR7",
        boot_variables=("PCR1",),
        applications=("PCR4",),
        grub=("PCR8",),
        stub=("PCR12",),
        kernel_stub=("PCR9",),
        loader=("PCR8", "PCR9", "PCR11", "PCR12", "PCR13", "PCR14"),
        runtime=(),  # Software that runs keeps logs of its own.
    ),
}

_Values: TypeAlias = "tuple[tuple[str, str | int | bool], ...]"
_Pair: TypeAlias = "tuple[ParsedEvent, Verification]"
_Read: TypeAlias = "Callable[[ParsedEvent, Verification], _Values | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFact:
    """One event that a fact rests on.

    Attributes:
        event: its number in the log.
        digest: as replayed, of the log's bank; always proven.
        verification: extent to which the digest authenticates ``values``.
        values: values of the hashed data; empty where the data was not hashed.
    """

    event: int
    register: str
    digest: bytes
    verification: Verification
    values: _Values = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogFacts:
    """Everything that a verified log states. Nothing in here rests on data that was not hashed.

    None is a list that the log cannot prove: not every register that it is read from was compared.

    Attributes:
        event_count: records behind the header.
        secure_boot: ``enabled``; None when the log has no SecureBoot variable of the firmware, or several, as well.
        signature_stores: ``pk``, ``kek``, ``db`` and ``dbx``, in the order measured.
        authorities: variables that authenticated a boot loader.
        boot_variables: values of BootOrder and Boot####, in the order measured; their names are not hashed.
        other_firmware_events: every other event of the same registers, by digest.
        boot_applications: images that the firmware started: PE digests.
        kernel_command_lines: texts of GRUB, for which the prefix that makes one a command line is not hashed, and of
            systemd's EFI stub, which has a register for them.
        grub_commands: texts of GRUB, all the others.
        load_options: digests of the command lines that Linux's EFI stub measured.
        initrds: digests of what Linux's EFI stub measured as initial RAM disk.
        other_loader_events: every other event of the boot loader's registers, by digest.
        application_events: ``domain``, ``operation`` and ``content`` of AAEL events.
        other_runtime_events: every other event of their register, by digest.
    """

    event_count: int
    secure_boot: EventFact | None
    signature_stores: tuple[tuple[str, EventFact], ...] | None
    authorities: tuple[EventFact, ...] | None
    boot_variables: tuple[EventFact, ...] | None
    other_firmware_events: tuple[EventFact, ...] | None
    boot_applications: tuple[EventFact, ...] | None
    kernel_command_lines: tuple[EventFact, ...] | None
    grub_commands: tuple[EventFact, ...] | None
    load_options: tuple[EventFact, ...] | None
    initrds: tuple[EventFact, ...] | None
    other_loader_events: tuple[EventFact, ...] | None
    application_events: tuple[EventFact, ...] | None
    other_runtime_events: tuple[EventFact, ...] | None


_LISTS = tuple(each.name for each in fields(EventLogFacts))[3:]
"""Names of the members that are lists of facts: all but the first three."""


def facts_of(verified: VerifiedEventLog) -> EventLogFacts:
    """Read the facts of a verified log."""
    log = verified.log
    places = _PLACES[log.kind.name]
    pairs = tuple(
        (event, how)
        for event, how in zip(log.events, verified.verifications, strict=True)
        if is_extended(event, log.kind) and event.register in verified.proven
    )
    read = partial(_facts, pairs, verified.proven)
    texts = (*places.grub, *places.stub)
    command_lines = read(texts, _kernel_command_line(places))
    grub_commands = read(places.grub, _grub_command)
    load_options = read(places.kernel_stub, _tagged(_STUB_LOAD_OPTIONS))
    initrds = read(places.kernel_stub, _tagged(_STUB_INITRD))
    named = {fact.event for facts in (command_lines, grub_commands, load_options, initrds) for fact in facts or ()}
    return EventLogFacts(
        event_count=len(log.events),
        secure_boot=_secure_boot(pairs, log.kind),
        signature_stores=_signature_stores(pairs, log.kind) if places.secure_boot in verified.proven else None,
        authorities=read((places.secure_boot,), _authority(log.kind)),
        boot_variables=read(places.boot_variables, _boot_variable),
        other_firmware_events=read(
            places.boot_variables, lambda event, how: () if _boot_variable(event, how) is None else None
        ),
        boot_applications=read(
            places.applications, lambda event, _: () if event.type == EV_EFI_BOOT_SERVICES_APPLICATION else None
        ),
        kernel_command_lines=command_lines,
        grub_commands=grub_commands,
        load_options=load_options,
        initrds=initrds,
        # What the other lists leave out, so that together they hold the whole of these registers.
        other_loader_events=read(places.loader, lambda event, _: None if event.number in named else ()),
        application_events=read(places.runtime, _application),
        other_runtime_events=read(places.runtime, lambda event, _: () if application_event(event) is None else None),
    )


def _facts(
    pairs: tuple[_Pair, ...], proven: frozenset[str], registers: tuple[str, ...], read: _Read
) -> tuple[EventFact, ...] | None:
    """Make a fact of each event of these registers that is of the kind; None unless each of them was proven."""
    if not registers or not proven.issuperset(registers):
        return None
    found = ((pair, read(*pair)) for pair in pairs if pair[0].register in registers)
    return tuple(_fact(*pair, values) for pair, values in found if values is not None)


def _fact(event: ParsedEvent, how: Verification, values: _Values) -> EventFact:
    return EventFact(event=event.number, register=event.register, digest=event.digest, verification=how, values=values)


# -- the firmware's variables


def _firmware_variables(
    pairs: tuple[_Pair, ...], kind: LogKind
) -> Iterator[tuple[ParsedEvent, Verification, UefiVariable]]:
    """Yield the variables that the firmware measured before anything else could extend its register."""
    separators = {kind.hashed(data) for data in _SEPARATORS}
    for event, how in pairs:
        if event.register != _PLACES[kind.name].secure_boot:
            continue
        if event.type == EV_SEPARATOR or event.digest in separators:
            return
        variable = uefi_variable(event.data) if event.type == EV_EFI_VARIABLE_DRIVER_CONFIG else None
        if variable is not None:
            yield event, how, variable


def _secure_boot(pairs: tuple[_Pair, ...], kind: LogKind) -> EventFact | None:
    """Read the state; two answers are no answer, and an empty variable is one that the firmware does not have."""
    found = [found for found in _firmware_variables(pairs, kind) if (found[2].guid, found[2].name) == _SECURE_BOOT]
    if len(found) != 1:
        return None
    event, how, variable = found[0]
    enabled = {b"": False, b"\0": False, b"\1": True}.get(variable.value)
    return _fact(event, how, () if enabled is None else (("enabled", enabled),))


def _signature_stores(pairs: tuple[_Pair, ...], kind: LogKind) -> tuple[tuple[str, EventFact], ...]:
    """Return size and digest: the values themselves are kilobytes of certificates."""
    return tuple(
        (_SIGNATURE_STORES[variable.guid, variable.name], _fact(event, how, _size_and_digest(variable.value, kind)))
        for event, how, variable in _firmware_variables(pairs, kind)
        if (variable.guid, variable.name) in _SIGNATURE_STORES
    )


def _size_and_digest(value: bytes, kind: LogKind) -> _Values:
    return ("size", len(value)), (f"value_sha{8 * kind.size}", kind.hashed(value).hex())


# -- events of one kind: what the hashed data says, or None for an event of another kind


def _authority(kind: LogKind) -> _Read:
    def read(event: ParsedEvent, _: Verification) -> _Values | None:
        if event.type != EV_EFI_VARIABLE_AUTHORITY:
            return None
        variable = uefi_variable(event.data)
        if variable is None:
            return ()
        return ("guid", str(variable.guid)), ("name", variable.name), *_size_and_digest(variable.value, kind)

    return read


def _boot_variable(event: ParsedEvent, _: Verification) -> _Values | None:
    """Leave the name out: older profiles do not hash it."""
    if event.type not in (EV_EFI_VARIABLE_BOOT, EV_EFI_VARIABLE_BOOT2):
        return None
    variable = uefi_variable(event.data)
    return None if variable is None else (("value", variable.value.hex()),)


def _kernel_command_line(places: _Places) -> _Read:
    def read(event: ParsedEvent, how: Verification) -> _Values | None:
        if event.register in places.stub:
            line = stub_text(event) if how is Verification.VERIFIED else None
            return None if line is None else (("text", line),)
        text = grub_text(event)
        if how is Verification.UNVERIFIED or text is None or not text.is_command_line:
            return None
        return (("text", text.text),)

    return read


def _grub_command(event: ParsedEvent, how: Verification) -> _Values | None:
    text = grub_text(event)
    if how is Verification.UNVERIFIED or text is None or text.is_command_line:
        return None
    return (("text", text.text),)


def _tagged(tag: int) -> _Read:
    return lambda event, _: () if tag_of(event) == tag else None


def _application(event: ParsedEvent, _: Verification) -> _Values | None:
    found = application_event(event)
    if found is None:
        return None
    return (("domain", found.domain), ("operation", found.operation), ("content", found.content))


# -- as JSON


def facts_document(facts: EventLogFacts) -> dict[str, JsonValue]:
    """Return the facts as ``claims.eventlog`` has them; docs/event-logs.md explains each name."""
    document: dict[str, JsonValue] = {"event_count": facts.event_count}
    if facts.secure_boot is not None:
        document["secure_boot"] = _document(facts.secure_boot)
    if facts.signature_stores is not None:
        for store in _SIGNATURE_STORES.values():
            found: list[JsonValue] = [_document(fact) for name, fact in facts.signature_stores if name == store]
            document[store] = found
    for name in _LISTS:
        members: tuple[EventFact, ...] | None = getattr(facts, name)
        if members is not None:
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
