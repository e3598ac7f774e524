"""The opaque data of an NVIDIA report: packed entries of type (u16), size (u16) and value, little-endian.

What a device says of itself stands here: versions, firmware id, mode, neighbours. All of it is signed with the report.
Unknown types are kept and listed, and serve no check. Whether an entry is about a GPU or a switch follows
from the device's certificate, never from the entries.

Spec: specs/nvidia-gpu.md, section 4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from attest.endorsements.malformed import malformed as malformed_piece
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.gpu.opaque_types import (
    CHIP_INFO,
    CHIP_SKU,
    DRIVER_VERSION,
    FEATURE_FLAG,
    FWID,
    GPU_INFO,
    KNOWN_TYPES,
    LOCK_STATUS,
    MODES,
    NVDEC0_STATUS,
    OPAQUE_VERSION,
    PDI_BYTES,
    PDIS,
    PROJECT,
    PROJECT_SKU,
    PROTECTED_PCIE,
    PROTECTED_PCIE_ON,
    PROTECTED_PCIE_STATUS,
    SIZES,
    SWITCH_GPU_PDIS,
    SWITCH_PORTS_BYTES,
    TEXTS,
    UNPROTECTED,
    VALUES,
    VBIOS_VERSION,
    is_sized,
    is_understood,
)
from attest.evidence.tolerances import UnknownValue

CHECK = "nvidia.format"
MAX_OPAQUE_VERSION = 1
"""The highest value of entry 34 whose meaning is known."""

_CLAUSE = "NVIDIA nvtrust, opaque data"
_HEAD_BYTES = 4
_VERSIONED_MAGIC = b"NVDAOD"
_VBIOS_BYTES = 8
_VBIOS_ORDER = (3, 2, 1, 0, 4)
_NEWER = "the device's driver may be newer than this verifier: update the verifier, or report this value"
_TEXT = re.compile(rb"([ -~]*)\0*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueEntry:
    """One entry.

    Attributes:
        type: its subject, a key of ``KNOWN_TYPES`` or another number of 16 bits.
        value: its bytes, at most 65,535.
    """

    type: int
    value: bytes

    def to_bytes(self) -> bytes:
        """Encode again, with type and size in front."""
        return self.type.to_bytes(2, "little") + len(self.value).to_bytes(2, "little") + self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueData:
    """A device's statements about itself. Built by ``parse_opaque``; None means "not present in the report".

    Attributes:
        raw: the bytes as received, all of them signed.
        entries: in the order of the report; no type occurs twice.
    """

    raw: bytes
    entries: tuple[OpaqueEntry, ...]

    def value(self, entry_type: int) -> bytes | None:
        """Return the bytes of the entry of this type."""
        return next((entry.value for entry in self.entries if entry.type == entry_type), None)

    @property
    def driver_version(self) -> str | None:
        """Version of the driver (``550.90.07``); a switch has none."""
        return self._text(DRIVER_VERSION)

    @property
    def project(self) -> str | None:
        """Name of the board's project (``G520``)."""
        return self._text(PROJECT)

    @property
    def project_sku(self) -> str | None:
        """Variant of the project (``0200``)."""
        return self._text(PROJECT_SKU)

    @property
    def chip_sku(self) -> str | None:
        """Variant of the chip (``885``)."""
        return self._text(CHIP_SKU)

    @property
    def chip_info(self) -> str | None:
        """Name of the chip (``GB202``); only newer drivers state it."""
        return self._text(CHIP_INFO)

    @property
    def nvdec0(self) -> int | None:
        """State of the first video decoder: 0xAA enabled, 0x55 disabled."""
        return self._understood(NVDEC0_STATUS)

    @property
    def fwid(self) -> bytes | None:
        """SHA-384 of the first mutable firmware, 48 bytes; drivers before 550 and switches do not state it."""
        return self.value(FWID)

    @property
    def protected_pcie(self) -> int | None:
        """Protected PCIe: 0xAA on, 0x55 off."""
        return self._understood(PROTECTED_PCIE_STATUS)

    @property
    def version(self) -> int:
        """Version of the opaque data, 0 or 1; 0 when it is not stated."""
        return self._unsigned(OPAQUE_VERSION) or 0

    @property
    def feature_flag(self) -> int | None:
        """Mode: 0 single GPU pass-through, 1 multi GPU pass-through, 2 protected PCIe. Without version 1: None."""
        return self._understood(FEATURE_FLAG) if self.version >= 1 else None

    @property
    def mode(self) -> str | None:
        """A value of ``MODES``, or ``UNPROTECTED``.

        From version 1 on the feature flag decides. Drivers before 580 write none, and their status of protected PCIe
        decides; whether one GPU or several are passed through is then not stated.
        """
        flag = self.feature_flag
        if flag is not None:
            return MODES[flag]
        if self.version >= 1 or self.protected_pcie is None:
            return None
        return PROTECTED_PCIE if self._protected_pcie_on else UNPROTECTED

    @property
    def contradicts_mode(self) -> bool:
        """True if the status of protected PCIe contradicts the feature flag; no recorded report does that."""
        return (self.mode == PROTECTED_PCIE) != self._protected_pcie_on

    @property
    def own_pdi(self) -> bytes | None:
        """A switch's own id, 8 bytes in the order of the certificate's serial number."""
        value = self.value(PDIS)
        return value if value is not None and len(value) == PDI_BYTES else None

    @property
    def switch_pdis(self) -> tuple[bytes, ...] | None:
        """Id of the switch behind each of a GPU's 18 links, 8 bytes, zero for a link that is off.

        The report writes them little-endian; here they are reversed already and compare equal to ``own_pdi``.
        """
        value = self.value(PDIS)
        if value is None or len(value) == PDI_BYTES:
            return None
        return tuple(pdi[::-1] for pdi in _pieces(value))

    @property
    def gpu_pdis(self) -> tuple[bytes, ...] | None:
        """The ids of the eight GPUs that a switch knows, 8 bytes each in the order of the certificate's serial number.

        The table of ports behind them is not interpreted. BIOS 96.10.52 wrote both under another type.
        """
        value = self.value(SWITCH_GPU_PDIS) or self._old_gpu_pdis()
        return None if value is None else _pieces(value[:-SWITCH_PORTS_BYTES])

    @property
    def lock_status(self) -> int | None:
        """Lock state of a switch's configuration: 1 locked."""
        return self._unsigned(LOCK_STATUS)

    @property
    def unknown(self) -> tuple[int, ...]:
        """Types that are not in ``KNOWN_TYPES``, in the order of the report."""
        return tuple(entry.type for entry in self.entries if entry.type not in KNOWN_TYPES)

    def unknown_values(self, offset: int) -> tuple[UnknownValue, ...]:
        """Return the values outside their closed sets, in the order of the report, of data that begins at an offset."""
        found: list[UnknownValue] = []
        for entry in self.entries:
            # Without a version the flag has no meaning.
            if not is_understood(entry.type, entry.value) and (entry.type != FEATURE_FLAG or self.version >= 1):
                found.append(_unknown(entry, offset))
            offset += _HEAD_BYTES + len(entry.value)
        return tuple(found)

    def gpu_vbios_version(self) -> str | None:
        """Return the VBIOS version of a device that is a GPU by its certificate (``96.00.74.00.1A``).

        Five of eight bytes make the text; the other three were zero in all reports seen and are not interpreted.

        Raises:
            EvidenceError: ``gpu-report-malformed``, the entry is of another size and so none of a GPU.
        """
        value = self.value(VBIOS_VERSION)
        if value is None:
            return None
        if len(value) != _VBIOS_BYTES:
            raise malformed("VBIOS version", None, f"{_VBIOS_BYTES} bytes for a GPU", f"{len(value)} bytes")
        return ".".join(f"{value[i]:02X}" for i in _VBIOS_ORDER)

    def switch_bios_version(self) -> str | None:
        """Return the BIOS version of a device that is a switch by its certificate (``96.10.55.00.01``).

        Raises:
            EvidenceError: ``gpu-report-malformed``, the entry is no text and so none of a switch.
        """
        value = self.value(VBIOS_VERSION)
        if value is None:
            return None
        if not (text := _text(value)):
            raise malformed("VBIOS version", None, "printable ASCII for a switch", value.hex())
        return text

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_opaque`` accepts."""
        return b"".join(entry.to_bytes() for entry in self.entries)

    def _text(self, entry_type: int) -> str | None:
        """Return a text; one of NULs alone states nothing."""
        value = self.value(entry_type)
        return (_text(value) or None) if value is not None else None

    def _unsigned(self, entry_type: int) -> int | None:
        value = self.value(entry_type)
        return int.from_bytes(value, "little") if value is not None else None

    def _understood(self, entry_type: int) -> int | None:
        """Return a number; None also for one that is not in the closed set of its type."""
        value = self.value(entry_type)
        return int.from_bytes(value, "little") if value is not None and is_understood(entry_type, value) else None

    @property
    def _protected_pcie_on(self) -> bool:
        return self.protected_pcie == PROTECTED_PCIE_ON

    def _old_gpu_pdis(self) -> bytes | None:
        value = self.value(GPU_INFO)
        return value if value is not None and len(value) in SIZES[SWITCH_GPU_PDIS] else None


def parse_opaque(data: bytes, *, offset: int = 0) -> OpaqueData:
    """Read the opaque data of a report.

    Args:
        data: all of it, at most 65,535 bytes.
        offset: its start in the report, for messages.

    Raises:
        EvidenceError: ``gpu-report-malformed``: an entry overruns, a type is duplicated, or text is not printable.
        UnsupportedError: ``gpu-opaque-unsupported``: the versioned layout, a version above ``MAX_OPAQUE_VERSION``, or
            a value that checks rest on and that has another size than is known.

    A value outside its closed set (``VALUES``) is kept; ``unknown_values`` lists it, and verification refuses it.

    Spec: specs/nvidia-gpu.md, sections 4.1 to 4.3.
    """
    # (1) Which layout: the newer one begins with its name, and would be an entry of 16,708 bytes here.
    if data.startswith(_VERSIONED_MAGIC):
        raise _versioned(data, offset)
    # (2) Framing: entries follow each other without gaps, and end with the data.
    entries = _entries(data, offset)
    opaque = OpaqueData(raw=data, entries=tuple(entry for _, entry in entries))
    # (3) The version says whether the entries mean what we think.
    for at, entry in entries:
        if entry.type == OPAQUE_VERSION and not is_sized(entry.type, entry.value):
            raise _not_understood(entry, at)
    if opaque.version > MAX_OPAQUE_VERSION:
        raise _unsupported(f"version {opaque.version}", f"at most {MAX_OPAQUE_VERSION}", offset)
    # (4) Values that are interpreted.
    for at, entry in entries:
        if entry.type not in VALUES and not is_sized(entry.type, entry.value):
            raise _not_understood(entry, at)
        _require_text(entry, at)
    if opaque.value(SWITCH_GPU_PDIS) is not None and len(opaque.value(GPU_INFO) or b"") in SIZES[SWITCH_GPU_PDIS]:
        raise malformed("opaque data", offset, "one list of GPU PDIs", "one under type 4 and one under type 26")
    return opaque


def _entries(data: bytes, offset: int) -> list[tuple[int, OpaqueEntry]]:
    """Cut the data into entries, each with its offset in the report."""
    found: list[tuple[int, OpaqueEntry]] = []
    types: set[int] = set()
    at = 0
    while at < len(data):
        head = data[at : at + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            raise malformed("opaque data", offset + at, "type and size of an entry, 4 bytes", f"{len(head)} bytes")
        entry_type, size = int.from_bytes(head[:2], "little"), int.from_bytes(head[2:], "little")
        value = data[at + _HEAD_BYTES : at + _HEAD_BYTES + size]
        if len(value) < size:
            raise malformed(_name(entry_type), offset + at, f"{size} bytes", f"{len(value)} bytes")
        if entry_type in types:
            raise malformed(_name(entry_type), offset + at, "each type at most once", f"type {entry_type} twice")
        types.add(entry_type)
        found.append((offset + at, OpaqueEntry(type=entry_type, value=value)))
        at += _HEAD_BYTES + size
    return found


def _require_text(entry: OpaqueEntry, at: int) -> None:
    """Refuse text that cannot be shown."""
    name = _name(entry.type)
    if entry.type in TEXTS and _text(entry.value) is None:
        raise malformed(name, at, "printable ASCII", entry.value[:64].hex())
    if entry.type == VBIOS_VERSION and len(entry.value) != _VBIOS_BYTES and not _text(entry.value):
        raise malformed(name, at, "8 bytes, or printable ASCII", entry.value[:64].hex())


def _text(value: bytes) -> str | None:
    """Return text without the NULs behind it; None for what is not printable ASCII."""
    found = _TEXT.fullmatch(value)
    return found[1].decode("ascii") if found else None


def _pieces(value: bytes) -> tuple[bytes, ...]:
    return tuple(value[at : at + PDI_BYTES] for at in range(0, len(value), PDI_BYTES))


def _name(entry_type: int) -> str:
    return f"{KNOWN_TYPES.get(entry_type, 'unknown')} (opaque data, type {entry_type})"


def _versioned(data: bytes, offset: int) -> UnsupportedError:
    """Name the version of the layout that begins with the magic: major, minor and patch, a byte each."""
    numbers = data[8:11]
    stated = "version " + ".".join(map(str, numbers)) if len(numbers) == 3 else "no version"
    return _unsupported(f"the versioned layout (NVDAOD), {stated}", "the layout without a name in front", offset)


def _unknown(entry: OpaqueEntry, offset: int) -> UnknownValue:
    """Name a value outside its closed set as policies do, with its refusal."""
    name, refusal = f"{entry.type}:{entry.value.hex()}", _not_understood(entry, offset)
    refusal.hint = f"{_NEWER}; a policy whose author knows its meaning can accept it: accepted_opaque, {name[:80]!r}"
    return UnknownValue(name, refusal)


def _not_understood(entry: OpaqueEntry, offset: int) -> UnsupportedError:
    """Refuse a value that may have a meaning in the device, and has none that is known here."""
    field = _name(entry.type)
    if is_sized(entry.type, entry.value):
        expected = " or ".join(f"{value:#x}" for value in sorted(VALUES[entry.type]))
        got = f"{int.from_bytes(entry.value, 'little'):#x}"
    else:
        expected = f"{' or '.join(map(str, SIZES[entry.type]))} bytes"
        got = f"{len(entry.value)} bytes ({entry.value[:16].hex()})"
    return _unsupported(got, expected, offset, field=field, problem=f"{field} is not understood and therefore refused")


def _unsupported(
    got: str,
    expected: str,
    offset: int,
    *,
    field: str = "opaque data",
    problem: str = "opaque data of this report is not supported",
) -> UnsupportedError:
    return UnsupportedError(
        f"{problem}: {got}, expected {expected}",
        code="gpu-opaque-unsupported",
        check=CHECK,
        field=field,
        offset=offset,
        expected=expected,
        got=got,
        clause="NVIDIA nvtrust, opaque data",
        hint=_NEWER,
    )


def malformed(field: str, offset: int | None, expected: str, got: str, *, clause: str = _CLAUSE) -> EvidenceError:
    """Build the refusal of a report that is not what its format says; for the caller to raise."""
    code = "gpu-report-malformed"
    return malformed_piece(field, expected, got, code=code, check=CHECK, clause=clause, offset=offset)
