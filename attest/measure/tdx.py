"""MRTD and RTMR0 to RTMR2 of a TD that QEMU starts from OVMF firmware, with a kernel that it loads directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError
from attest.measure.acpi_tables import MAX_TABLES_BYTES, rsdp, table_loader
from attest.measure.boot_events import (
    AcpiFiles,
    MeasuredEvent,
    SecureBoot,
    extended,
    rtmr0_events,
    rtmr1_events,
    rtmr2_events,
)
from attest.measure.configuration_volume import holds_no_variables
from attest.measure.firmware_table import MAX_FIRMWARE_BYTES
from attest.measure.inputs import FileDigest, digest_file, read_whole
from attest.measure.linux_image import MAX_KERNEL_BYTES, KernelHeader, authenticode_sha384, patched_kernel
from attest.measure.td_hob import td_hob
from attest.measure.tdvf import PageOrder, SectionKind, Tdvf, mr_td, parse_tdvf

MAX_CMDLINE_CHARACTERS = 1 << 16
_MAX_INITRD_BYTES = 0xFFFF_FFFF
_FIRST_WITH_HEADER_AS_IS = (10, 2)
_LAST_BY_SECTION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxLaunch:
    """Everything that goes into MRTD and RTMR0 to RTMR2 of a TD. A part that is None leaves registers unknown.

    Attributes:
        page_order: order of the measurements in MRTD.
        memory: memory of the guest in bytes, whole MiB.
        kernel: path of a kernel that QEMU loads directly.
        kernel_header: whether QEMU writes into the kernel's setup header.
        cmdline: command line as QEMU gets it; OVMF adds `` initrd=initrd`` where there is an initial RAM disk.
        secure_boot: whether the firmware was built with Secure Boot.
        acpi_tables: QEMU's file ``etc/acpi/tables``.
        acpi_loader: QEMU's file ``etc/table-loader``; None: it is derived from the tables.
        acpi_rsdp: QEMU's file ``etc/acpi/rsdp``; None: it is derived from the tables.
        unknown_rtmr0: reason why the firmware's events are not known; None if they are.
    """

    firmware: Path
    page_order: PageOrder = PageOrder.BY_PAGE
    memory: int | None = None
    kernel: Path | None = None
    kernel_header: KernelHeader | None = None
    initrd: Path | None = None
    cmdline: str | None = None
    secure_boot: SecureBoot = SecureBoot.ABSENT
    acpi_tables: Path | None = None
    acpi_loader: Path | None = None
    acpi_rsdp: Path | None = None
    unknown_rtmr0: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxMeasurements:
    """The registers of a TD, as far as they follow from what was given.

    Attributes:
        events: by register, ``rtmr0`` to ``rtmr2``, what extends it, in order.
        missing: by register, the reason why it is not known.
    """

    mr_td: bytes
    events: Mapping[str, tuple[MeasuredEvent, ...]]
    missing: Mapping[str, str]

    @property
    def registers(self) -> dict[str, bytes]:
        """The known registers by name, 48 bytes each."""
        return {"mr_td": self.mr_td, **{name: extended(events) for name, events in self.events.items()}}


class _MissingInputError(Exception):
    """An input that a register needs was not given; it never leaves this module."""


def tdx_measurements(launch: TdxLaunch) -> TdxMeasurements:
    """Compute the registers as they will stand in the quote of this TD.

    Raises:
        ConfigurationError: ``measure-file-unreadable``, ``measure-firmware-invalid``, ``measure-kernel-invalid``,
            ``measure-acpi-invalid`` or ``measure-options-invalid``.
    """
    _require_options(launch)
    tdvf = parse_tdvf(read_whole(launch.firmware, limit=MAX_FIRMWARE_BYTES), name=str(launch.firmware))
    initrd = None if launch.initrd is None else _initrd(launch.initrd)
    makers: dict[str, Callable[[], tuple[MeasuredEvent, ...]]] = {
        "rtmr0": lambda: _rtmr0(launch, tdvf),
        "rtmr1": lambda: _rtmr1(launch, initrd),
        "rtmr2": lambda: _rtmr2(launch, initrd),
    }
    events: dict[str, tuple[MeasuredEvent, ...]] = {}
    missing: dict[str, str] = {}
    for register, make in makers.items():
        try:
            events[register] = make()
        except _MissingInputError as exc:
            missing[register] = str(exc)
    return TdxMeasurements(mr_td=mr_td(tdvf, launch.page_order), events=events, missing=missing)


def page_order_of(qemu: tuple[int, int]) -> PageOrder:
    """Return the order in which a version of QEMU (major, minor) measures the firmware's pages."""
    return PageOrder.BY_SECTION if qemu[0] <= _LAST_BY_SECTION else PageOrder.BY_PAGE


def kernel_header_of(qemu: tuple[int, int]) -> KernelHeader:
    """Return whether a version of QEMU (major, minor) writes into the setup header of a TD's kernel."""
    return KernelHeader.AS_IS if qemu >= _FIRST_WITH_HEADER_AS_IS else KernelHeader.PATCHED


def _require_options(launch: TdxLaunch) -> None:
    if launch.kernel is None and (launch.initrd is not None or launch.cmdline is not None):
        raise _wrong_options(
            "an initrd or a command line is measured together with a kernel only",
            hint="give --kernel too, or leave --initrd and --cmdline out",
        )
    if launch.kernel is not None and launch.kernel_header is None:
        raise _wrong_options(
            "QEMU up to 10.1 writes into the kernel's header, QEMU 10.2 and later does not",
            hint="give --qemu-version, or --kernel-header",
        )
    if launch.acpi_tables is None and (launch.acpi_loader is not None or launch.acpi_rsdp is not None):
        raise _wrong_options("the loader and the RSDP are measured with ACPI tables only", hint="give --acpi-tables")
    cmdline = launch.cmdline or ""
    if not cmdline.isascii() or "\0" in cmdline or len(cmdline) > MAX_CMDLINE_CHARACTERS:
        raise _wrong_options(
            "the command line has characters that the firmware does not pass on as they are",
            hint=f"ASCII, at most {MAX_CMDLINE_CHARACTERS} characters",
        )
    if "vga=" in cmdline and launch.kernel_header is KernelHeader.PATCHED:
        raise _wrong_options(
            "QEMU writes the video mode of 'vga=' into the kernel's header, which is not supported here",
            hint="start the guest without vga=, or with QEMU 10.2 or later",
        )


def _wrong_options(problem: str, *, hint: str) -> ConfigurationError:
    return ConfigurationError(problem, code="measure-options-invalid", hint=hint)


def _initrd(path: Path) -> FileDigest:
    found = digest_file(path)
    if not 0 < found.size <= _MAX_INITRD_BYTES:
        raise ConfigurationError(
            f"{path} has {found.size} bytes",
            code="measure-options-invalid",
            expected=f"an initial RAM disk of 1 to {_MAX_INITRD_BYTES} bytes",
            hint="leave --initrd out for a guest without one",
        )
    return found


# -- registers


def _rtmr0(launch: TdxLaunch, tdvf: Tdvf) -> tuple[MeasuredEvent, ...]:
    if launch.unknown_rtmr0 is not None:
        raise _MissingInputError(launch.unknown_rtmr0)
    volumes = tdvf.of_kind(SectionKind.CONFIGURATION_VOLUME)
    if len(volumes) != 1 or not holds_no_variables(volumes[0].data):
        raise _MissingInputError("the firmware's store of variables is not empty, and what it holds is measured too")
    if launch.memory is None:
        raise _MissingInputError("it depends on the guest's memory; give --memory")
    if launch.acpi_tables is None:
        raise _MissingInputError("it depends on the host's ACPI tables; give --acpi-tables")
    hob = td_hob(tdvf, launch.memory)
    tables = read_whole(launch.acpi_tables, limit=MAX_TABLES_BYTES)
    return rtmr0_events(
        td_hob=hob,
        configuration_volume=volumes[0].data,
        secure_boot=launch.secure_boot,
        acpi=AcpiFiles(
            loader=table_loader(tables) if launch.acpi_loader is None else _given(launch.acpi_loader),
            rsdp=rsdp(tables) if launch.acpi_rsdp is None else _given(launch.acpi_rsdp),
            tables=tables,
        ),
    )


def _given(path: Path) -> bytes:
    data = read_whole(path, limit=MAX_TABLES_BYTES)
    if not data:
        raise _wrong_options(f"{path} is empty", hint="leave the option out where QEMU's file is the usual one")
    return data


def _rtmr1(launch: TdxLaunch, initrd: FileDigest | None) -> tuple[MeasuredEvent, ...]:
    if launch.kernel is None:
        raise _MissingInputError("it measures the kernel; give --kernel")
    name = str(launch.kernel)
    kernel = read_whole(launch.kernel, limit=MAX_KERNEL_BYTES)
    if launch.kernel_header is KernelHeader.PATCHED:
        if initrd is not None and launch.memory is None:
            raise _MissingInputError("QEMU places the initial RAM disk by the guest's memory; give --memory")
        size = 0 if initrd is None else initrd.size
        kernel = patched_kernel(kernel, initrd_size=size, memory=launch.memory or 0, name=name)
    return rtmr1_events(authenticode_sha384(kernel, name=name))


def _rtmr2(launch: TdxLaunch, initrd: FileDigest | None) -> tuple[MeasuredEvent, ...]:
    if launch.kernel is None:
        raise _MissingInputError("it measures command line and initial RAM disk; give --kernel")
    return rtmr2_events(cmdline=launch.cmdline or "", initrd_digest=None if initrd is None else initrd.sha384)
