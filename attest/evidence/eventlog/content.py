"""Data of events, and the extent to which their digests authenticate it.

A log is not signed. A replay proves the digests, their register and their order. It proves neither the data nor the
type: the bearer of the log can write another type beside a digest. Data counts only where it is what was hashed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from attest.errors import VerificationError
from attest.evidence.eventlog.kinds import LogKind
from attest.evidence.eventlog.structure import ParsedEvent, ParsedEventLog
from attest.evidence.eventlog.vocabulary import (
    EV_EFI_VARIABLE_AUTHORITY,
    EV_EFI_VARIABLE_BOOT,
    EV_EFI_VARIABLE_BOOT2,
    EV_EFI_VARIABLE_DRIVER_CONFIG,
    EV_EVENT_TAG,
    EV_IPL,
    EV_NO_ACTION,
    EV_RUNTIME,
    WHOLE_DATA_TYPES,
)

AAEL_TAG = 0x4141454C
"""Application events of the attestation agents of Confidential Containers and Alibaba Cloud ("LEAA")."""

_CLAUSE = "TCG PC Client Platform Firmware Profile, event types"
_CHECK = "eventlog.data"
_BOOT_VARIABLES = (EV_EFI_VARIABLE_BOOT, EV_EFI_VARIABLE_BOOT2)
_VARIABLES = (EV_EFI_VARIABLE_DRIVER_CONFIG, EV_EFI_VARIABLE_AUTHORITY, *_BOOT_VARIABLES)
_GRUB = re.compile(rb"(grub_cmd|(?:grub_)?kernel_cmdline):? ")


class Verification(enum.StrEnum):
    """Extent to which the digest of an event authenticates its data."""

    VERIFIED = "verified"
    """The whole data was hashed."""
    VALUE_ONLY = "value only"
    """The value was hashed; the name or prefix that says what it is was not."""
    UNVERIFIED = "unverified"
    """The digest is of something that the log does not hold, or proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UefiVariable:
    """The data of a variable event: UEFI_VARIABLE_DATA."""

    guid: UUID
    name: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationEvent:
    """The text of an AAEL event."""

    domain: str
    operation: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrubText:
    """A measurement that GRUB made on its own.

    Attributes:
        is_command_line: the kernel's command line, by the prefix, which no digest covers; otherwise a command of GRUB.
        text: the text after the prefix, up to its NUL.
    """

    is_command_line: bool
    text: str


def is_extended(event: ParsedEvent, kind: LogKind) -> bool:
    """Return whether an event extended a register that is compared."""
    return event.type != EV_NO_ACTION and kind.registers[event.index].initial is not None


def verification(event: ParsedEvent, kind: LogKind) -> Verification:
    """Recompute the digest of an event from its data.

    Raises:
        VerificationError: ``eventlog-data-mismatch``, the data of a kind that is always what was hashed gives
            another digest: the log was changed.

    Spec: specs/intel-tdx-sgx.md, section 19, the table of recomputable texts.
    """
    if event.withheld or not is_extended(event, kind):
        return Verification.UNVERIFIED
    whole = kind.hashed(event.data) == event.digest
    if event.type in WHOLE_DATA_TYPES or tag_of(event) == AAEL_TAG:
        if whole:
            return Verification.VERIFIED
        raise _mismatch(event, kind, event.data)
    if event.type in _BOOT_VARIABLES:
        # Revisions of the profile differ in what they hash; either way the value is covered.
        variable = uefi_variable(event.data)
        if whole and variable is not None:
            return Verification.VERIFIED
        if variable is not None and kind.hashed(variable.value) == event.digest:
            return Verification.VALUE_ONLY
        raise _mismatch(event, kind, event.data if variable is None else variable.value)
    if whole and (event.type == EV_RUNTIME or stub_text(event) is not None):
        return Verification.VERIFIED
    if event.type == EV_IPL and any(kind.hashed(text) == event.digest for text in _grub_texts(event.data)):
        return Verification.VALUE_ONLY
    return Verification.UNVERIFIED


def require_data(log: ParsedEventLog) -> tuple[Verification, ...]:
    """Recompute every digest that can be, in the order of the events.

    Raises:
        VerificationError: ``eventlog-data-mismatch``, with the first such event.
    """
    return tuple(verification(event, log.kind) for event in log.events)


def _mismatch(event: ParsedEvent, kind: LogKind, hashed: bytes) -> VerificationError:
    expected, got = event.digest.hex(), kind.hashed(hashed).hex()
    where = f" (offset {event.offset:#x})" if event.offset else ""
    return VerificationError(
        f"event {event.number} ({event.type_name}, {event.register}): the digest is {expected}, its data gives {got}"
        f"{where}",
        code="eventlog-data-mismatch",
        check=_CHECK,
        field=f"event {event.number}",
        offset=event.offset or None,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


# -- data of single kinds


def uefi_variable(data: bytes) -> UefiVariable | None:
    """Read UEFI_VARIABLE_DATA; None when its lengths do not add up or its name is no text."""
    units, length = (int.from_bytes(data[at : at + 8], "little") for at in (16, 24))
    ends = 32 + 2 * units
    if len(data) < 32 or len(data) != ends + length:
        return None
    try:
        name = data[32:ends].decode("utf-16-le")
    except UnicodeDecodeError:
        return None
    return UefiVariable(guid=UUID(bytes_le=data[:16]), name=name, value=data[ends:])


def tag_of(event: ParsedEvent) -> int | None:
    """Return the id of a tagged event; None for other events and for one too short to have an id."""
    if event.type != EV_EVENT_TAG or len(event.data) < 8:
        return None
    return int.from_bytes(event.data[:4], "little")


def application_event(event: ParsedEvent) -> ApplicationEvent | None:
    """Read an AAEL event: ``domain operation content``; None for another event, or another form."""
    text = event.data[8:]
    if tag_of(event) != AAEL_TAG or int.from_bytes(event.data[4:8], "little") != len(text):
        return None
    try:
        words = text.decode("utf-8").split(" ", 2)
    except UnicodeDecodeError:
        return None
    if len(words) != 3 or not all(words[:2]):
        return None
    return ApplicationEvent(domain=words[0], operation=words[1], content=words[2])


def _grub_texts(data: bytes) -> Iterator[bytes]:
    """Yield what GRUB and its forks hash: the text behind the prefix, up to its NUL or with it."""
    prefix = _GRUB.match(data)
    if prefix is not None:
        text, nul, _ = data[prefix.end() :].partition(b"\0")
        yield text
        yield text + nul


def grub_text(event: ParsedEvent) -> GrubText | None:
    """Read an EV_IPL event of GRUB; None for others and for text that is not UTF-8.

    What a fork writes behind the NUL was not hashed and is left out.
    """
    prefix = _GRUB.match(event.data) if event.type == EV_IPL else None
    if prefix is None:
        return None
    try:
        text = event.data[prefix.end() :].partition(b"\0")[0].decode("utf-8")
    except UnicodeDecodeError:
        return None
    return GrubText(is_command_line=prefix[1] != b"grub_cmd", text=text)


def stub_text(event: ParsedEvent) -> str | None:
    """Read an EV_IPL event of systemd's EFI stub or boot menu: text in UTF-16 with one NUL at its end; None for others.

    A kernel command line is hashed as it is logged, NUL included. Of all else that they measure the log has a name.
    """
    if event.type != EV_IPL or len(event.data) < 4 or _GRUB.match(event.data):
        return None
    try:
        text = event.data.decode("utf-16-le")
    except UnicodeDecodeError:
        return None
    return text[:-1] if text.find("\0") == len(text) - 1 else None


def event_text(event: ParsedEvent) -> str | None:
    """Return the data of an event for people, verified or not; None when it is not readable.

    A variable gives its name and value, a tagged event its tag and text, an event of dstack its name; other data has to
    be printable text.
    """
    if event.type == EV_RUNTIME and event.data[4:5] == b":":
        return readable_text(event.data[5:].partition(b":")[0])
    if event.type in _VARIABLES:
        variable = uefi_variable(event.data)
        if variable is None:
            return None
        return f"{variable.name} = {readable_text(variable.value) or variable.value.hex() or 'empty'}"
    tag = tag_of(event)
    if tag is not None:
        return f"tag {tag:#010x}: {readable_text(event.data[8:]) or event.data[8:].hex()}"
    wide = stub_text(event)
    return readable_text(event.data) or (None if wide is None else readable_text(wide.encode()))


def readable_text(data: bytes) -> str | None:
    """Return printable ASCII text, perhaps ended by NULs."""
    text = data.rstrip(b"\0")
    if not text or not re.fullmatch(rb"[ -~\t\n]*", text):
        return None
    return text.decode("ascii").strip()
