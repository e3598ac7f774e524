"""The SEV-SNP launch digest of a guest, computed from the files that it is launched from.

The package ``sev-snp-measure`` computes the digest chain. It validates little, so the firmware is parsed here first:
input that the package would ignore, or answer with a traceback, is refused by name.

Spec: AMD 56860, SNP_LAUNCH_UPDATE; specs/sev-snp.md, section 16.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from attest.errors import ConfigurationError, EvidenceError
from attest.evidence.reader import ByteReader
from attest.measure.firmware_table import MAX_FIRMWARE_BYTES, PAGE_BYTES, firmware_table
from attest.measure.inputs import read_input, unreadable

MAX_VCPUS = 4096
"""More than any machine; each costs a page of hashing."""
MAX_SECTIONS = 64
MAX_SECTION_BYTES = 256 * 1024 * 1024
"""All sections of zero pages together: 65,536 steps of the digest chain."""

_METADATA = UUID("dc886566-984a-4798-a75e-5585a7bf67cc")
_HASH_TABLE = UUID("7255371f-3a3b-4b04-927b-1da6efa8d454")
_RESET_BLOCK = UUID("00f771de-1a7e-4fcb-890e-68c77e2fb44e")
_SECTION_TYPES = {1, 2, 3, 4, 0x10}
_ZERO_PAGES = {1, 4}
_KERNEL_HASHES = 0x10
_CLAUSE = "AMD 56860, SNP_LAUNCH_UPDATE"


class Vmm(enum.StrEnum):
    """The virtual machine monitor; each starts virtual processors in another state."""

    QEMU = "qemu"
    EC2 = "ec2"
    GCE = "gce"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpLaunch:
    """Everything that goes into the launch digest of a SEV-SNP guest.

    Attributes:
        vcpus: number of virtual processors, 1 to ``MAX_VCPUS``.
        vcpu_type: QEMU's name of the processor model (``EPYC-Genoa``); needed with QEMU, of no effect elsewhere.
        kernel: path of a kernel that the VMM loads directly; None when the guest boots from a disk.
        guest_features: SEV_FEATURES, 64 bits; bit 0 is SNP itself and must be set.
    """

    firmware: Path
    vcpus: int
    vcpu_type: str | None = None
    vmm: Vmm = Vmm.QEMU
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str | None = None
    guest_features: int = 0x1


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """The metadata of an OVMF image.

    Attributes:
        sections: (address, size, type) of each section of the SEV metadata.
        hash_table: address of the table of kernel hashes; None without one.
    """

    sections: tuple[tuple[int, int, int], ...]
    hash_table: int | None

    @property
    def measures_kernel(self) -> bool:
        """True if a kernel that the VMM loads becomes part of the measurement."""
        return bool(self.hash_table) and any(kind == _KERNEL_HASHES for _, _, kind in self.sections)


def vcpu_types() -> tuple[str, ...]:
    """Return the processor models that are known by name."""
    from sevsnpmeasure.vcpu_types import CPU_SIGS  # noqa: PLC0415  of the extra 'cli'

    return tuple(sorted(CPU_SIGS))


def launch_digest(launch: SnpLaunch) -> bytes:
    """Compute MEASUREMENT as it will stand in the report of this guest.

    Returns:
        48 bytes.

    Raises:
        ConfigurationError: ``measure-file-unreadable``, ``measure-firmware-invalid``, ``measure-kernel-unmeasured``,
            ``measure-vcpus-invalid``, ``measure-vcpu-type-unknown`` or ``measure-options-invalid``.
    """
    _require_options(launch)
    signature = _vcpu_signature(launch)
    firmware = parse_firmware(read_input(launch.firmware, limit=MAX_FIRMWARE_BYTES), name=str(launch.firmware))
    if launch.kernel is not None and not firmware.measures_kernel:
        raise ConfigurationError(
            f"{launch.firmware} has no table of kernel hashes, so the kernel would not be measured",
            code="measure-kernel-unmeasured",
            expected="firmware that measures a kernel, such as edk2's AmdSevX64",
            clause=_CLAUSE,
            hint="take other firmware, or leave --kernel out and measure what the guest's disk holds by other means",
        )
    for path in (launch.kernel, launch.initrd):
        if path is not None:
            read_input(path, limit=0)
    return _digest(launch, signature)


def _digest(launch: SnpLaunch, signature: int) -> bytes:
    from sevsnpmeasure.guest import calc_launch_digest  # noqa: PLC0415  of the extra 'cli'
    from sevsnpmeasure.sev_mode import SevMode  # noqa: PLC0415
    from sevsnpmeasure.vmm_types import VMMType  # noqa: PLC0415

    vmms = {Vmm.QEMU: VMMType.QEMU, Vmm.EC2: VMMType.ec2, Vmm.GCE: VMMType.gce}
    try:
        return calc_launch_digest(  # type: ignore[no-any-return]  # the package has no types
            SevMode.SEV_SNP,
            launch.vcpus,
            signature,
            str(launch.firmware),
            None if launch.kernel is None else str(launch.kernel),
            None if launch.initrd is None else str(launch.initrd),
            launch.cmdline,
            launch.guest_features,
            vmm_type=vmms[launch.vmm],
        )
    except OSError as exc:
        raise unreadable(Path(str(exc.filename)), exc) from exc
    except (RuntimeError, ValueError, AssertionError, LookupError) as exc:  # what that package raises for its input
        raise _invalid(str(launch.firmware), f"it cannot be measured: {str(exc) or type(exc).__name__}") from exc


def _require_options(launch: SnpLaunch) -> None:
    if not 1 <= launch.vcpus <= MAX_VCPUS:
        bounds = f"1 to {MAX_VCPUS}"
        problem = f"{launch.vcpus} virtual processors"
        raise ConfigurationError(problem, code="measure-vcpus-invalid", expected=bounds, hint=bounds)
    if not launch.guest_features & 1 or launch.guest_features >> 64:
        raise ConfigurationError(
            f"guest features {launch.guest_features:#x} are not those of a SEV-SNP guest",
            code="measure-options-invalid",
            expected="64 bits with bit 0 set",
            hint="bit 0 is SEV-SNP itself: 0x1, or 0x21 with newer versions of QEMU",
        )
    if launch.kernel is None and (launch.initrd is not None or launch.cmdline is not None):
        raise ConfigurationError(
            "an initrd or a command line is measured together with a kernel only",
            code="measure-options-invalid",
            hint="give --kernel too, or leave --initrd and --cmdline out",
        )


def _vcpu_signature(launch: SnpLaunch) -> int:
    """Return CPUID(1).EAX, which QEMU puts into RDX of each virtual processor; other VMMs put a constant there."""
    from sevsnpmeasure.vcpu_types import CPU_SIGS  # noqa: PLC0415  of the extra 'cli'

    if launch.vcpu_type in CPU_SIGS:
        return int(CPU_SIGS[launch.vcpu_type])
    known = ", ".join(vcpu_types())
    if launch.vcpu_type is not None:
        problem, hint = f"no virtual processor is called {launch.vcpu_type!r}", f"one of {known}"
    elif launch.vmm is Vmm.QEMU:
        problem = "QEMU guests need the type of their virtual processors"
        hint = "--vcpu-type is what stands behind QEMU's -cpu"
    else:
        return 0
    raise ConfigurationError(problem, code="measure-vcpu-type-unknown", expected=known, hint=hint)


# -- firmware


def parse_firmware(data: bytes, *, name: str) -> Firmware:
    """Read the tables at the end of an OVMF image, all of them before anything is computed.

    Raises:
        ConfigurationError: ``measure-firmware-invalid``.
    """
    table = firmware_table(data, refuse=partial(_refuse, name))
    for guid, what in ((_METADATA, "SEV metadata"), (_RESET_BLOCK, "reset block")):
        if len(table.get(guid, b"")) < 4:
            _refuse(name, f"its table names no {what}; it was not built for SEV-SNP")
    address = int.from_bytes(table[_HASH_TABLE][:4], "little") if len(table.get(_HASH_TABLE, b"")) >= 4 else None
    try:
        sections = _sections(data, int.from_bytes(table[_METADATA][:4], "little"), name)
    except EvidenceError as exc:  # of the reader: cut off
        raise _invalid(name, exc.message) from exc
    return Firmware(sections=sections, hash_table=address or None)


def _sections(data: bytes, from_end: int, name: str) -> tuple[tuple[int, int, int], ...]:
    """Read the SEV metadata: "ASEV", size, version 1, count, then address, size and type of each section."""
    if not 16 <= from_end <= len(data):
        _refuse(name, f"its SEV metadata would begin {from_end} bytes before its end")
    reader = ByteReader(data[len(data) - from_end :], what="SEV metadata")
    signature = reader.take(4, "signature")
    size, version, count = (reader.unsigned(4, field) for field in ("size", "version", "count"))
    if signature != b"ASEV" or version != 1 or count > MAX_SECTIONS or size < 16 + 12 * count:
        found = f"{signature!r}, version {version}, {count} sections"
        _refuse(name, f"its SEV metadata is of another kind ({found})")
    sections = tuple(
        (reader.unsigned(4, "address"), reader.unsigned(4, "size"), reader.unsigned(4, "type")) for _ in range(count)
    )
    for address, length, kind in sections:
        if kind not in _SECTION_TYPES or address % PAGE_BYTES or length % PAGE_BYTES:
            _refuse(name, f"a section of its SEV metadata has type {kind:#x} and {length} bytes at {address:#x}")
    if sum(length for _, length, kind in sections if kind in _ZERO_PAGES) > MAX_SECTION_BYTES:
        _refuse(name, f"its SEV metadata has more than {MAX_SECTION_BYTES} bytes of zero pages")
    if not sections:
        _refuse(name, "its SEV metadata has no section")
    return sections


def _refuse(name: str, problem: str) -> NoReturn:
    raise _invalid(name, problem)


def _invalid(name: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is no firmware that can be measured: {problem}",
        code="measure-firmware-invalid",
        expected="an OVMF image with SEV metadata",
        clause=_CLAUSE,
        hint="give the OVMF file that the VMM loads (QEMU: -bios), whole and unpacked",
    )
