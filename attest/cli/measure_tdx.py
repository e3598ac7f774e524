"""``attest measure tdx``: the expected registers of a TD."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.measurement_output import MEASUREMENT_SCHEMA, snippet, stated_origin
from attest.terminal.display import Display, display_options, gathered
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.encoding import JsonValue
    from attest.measure import TdxLaunch, TdxMeasurements

_UNITS = {"M": 20, "G": 30, "T": 40}
_REGISTERS = {"mr_td": "MRTD", "rtmr0": "RTMR0", "rtmr1": "RTMR1", "rtmr2": "RTMR2"}


def _memory(text: str) -> int:
    """Read a size in MiB, GiB or TiB, as QEMU's ``-m`` has it with a unit."""
    found = re.fullmatch(r"([0-9]{1,8})([MGT])", text)
    if found is None:
        raise click.BadParameter(f"expected a size with its unit, such as 2048M or 8G, got {text!r}")
    return int(found[1]) << _UNITS[found[2]]


def _qemu_version(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9.]{1,20})?", text)
    if found is None:
        raise click.BadParameter(f"expected a version of QEMU such as 10.2, got {text!r}")
    return int(found[1]), int(found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOptions:
    """The guest, by its files or by an image of dstack."""

    ovmf: str | None
    kernel: str | None
    initrd: str | None
    cmdline: str | None
    memory: int | None
    acpi_tables: str | None
    acpi_loader: str | None
    acpi_rsdp: str | None
    secure_boot: str
    dstack_image: str | None
    vm_config: str | None
    qemu_version: tuple[int, int] | None
    page_order: str | None
    kernel_header: str | None


_GUEST_OPTIONS = (
    click.option("--ovmf", metavar="FILE", help="Firmware image with TDVF metadata, the exact file that QEMU loads."),
    click.option("--kernel", metavar="FILE", help="Kernel that QEMU loads directly."),
    click.option("--initrd", metavar="FILE", help="Its initial RAM disk."),
    click.option("--cmdline", metavar="TEXT", help="Its command line, as QEMU gets it. Empty if not given."),
    click.option("--memory", type=_memory, metavar="SIZE", help="Memory of the guest, such as 2048M or 8G."),
    click.option("--acpi-tables", metavar="FILE", help="QEMU's file etc/acpi/tables for this machine."),
    click.option("--acpi-loader", metavar="FILE", help="QEMU's file etc/table-loader, if it is an unusual one."),
    click.option("--acpi-rsdp", metavar="FILE", help="QEMU's file etc/acpi/rsdp, if it is an unusual one."),
    click.option(
        "--secure-boot",
        type=click.Choice(["absent", "off"]),
        default="absent",
        show_default=True,
        help="Build of the firmware: without Secure Boot, or with it and without keys.",
    ),
    click.option("--dstack-image", metavar="DIR", help="Published image of dstack, instead of --ovmf to --cmdline."),
    click.option("--vm-config", metavar="FILE", help="vm_config of the machine, or the answer to GetQuote with it."),
    click.option("--qemu-version", type=_qemu_version, metavar="VERSION", help="Version of QEMU; sets the next two."),
    click.option(
        "--page-order",
        type=click.Choice(["single-pass", "two-pass"]),
        help="Order of the firmware's pages in MRTD. Default: single-pass, two-pass for QEMU 8.",
    ),
    click.option(
        "--kernel-header",
        type=click.Choice(["patched", "as-is"]),
        help="Kernel header: patched by QEMU (up to 10.1), or as-is.",
    ),
)


@click.command(
    cls=ExampleCommand,
    short_help="Compute MRTD and RTMR0 to RTMR2 of a TD.",
    examples=(
        "attest measure tdx --ovmf OVMF.fd",
        "attest measure tdx --ovmf OVMF.fd --kernel bzImage --initrd initrd.img --cmdline 'console=ttyS0' \\",
        "    --qemu-version 10.2 --memory 8G --acpi-tables tables.bin --policy-snippet",
        "attest measure tdx --dstack-image dstack-0.5.5/ --vm-config getquote.json --acpi-tables tables.bin",
    ),
)
@gathered("guest", GuestOptions, _GUEST_OPTIONS)
@click.option("--policy-snippet", is_flag=True, help="Print reference_values of a policy, in YAML.")
@click.option("--name", metavar="NAME", default="guest", show_default=True, help="Prefix of their names.")
@display_options
def tdx(*, guest: GuestOptions, policy_snippet: bool, name: str, display: Display) -> int:
    """Compute the registers of a TD that QEMU starts: MRTD and RTMR0 to RTMR2 in its quote.

    A register for which something was not given is left out with its reason. A file that cannot be measured is exit 2.
    """
    from attest.measure import tdx_measurements

    if policy_snippet and display.json:
        raise click.UsageError("--policy-snippet and --json both use standard output")
    launch, os_image = _launch(guest)
    found = tdx_measurements(launch)
    for register, reason in found.missing.items():
        display.warn(f"{_REGISTERS[register]} is not known: {reason}")
    if display.json:
        print_document(_document(launch, found, os_image))
    elif policy_snippet:
        rows = {
            f"{name}-{register.replace('_', '-')}": [(value.hex(), _REGISTERS[register])]
            for register, value in found.registers.items()
        }
        click.echo(snippet(rows, origin=_origin(guest, launch, os_image)), nl=False)
    else:
        _print(found, display)
    return 0


def _launch(guest: GuestOptions) -> tuple[TdxLaunch, bytes | None]:
    """Return the launch that the options describe, and the digest of its image if it is one of dstack."""
    if guest.dstack_image is not None:
        return _dstack_launch(guest, guest.dstack_image)
    if guest.ovmf is None:
        raise click.UsageError("give --ovmf, or --dstack-image with --vm-config")
    if guest.vm_config is not None:
        raise click.UsageError("--vm-config is for --dstack-image")
    return _qemu_launch(guest, guest.ovmf), None


def _qemu_launch(guest: GuestOptions, ovmf: str) -> TdxLaunch:
    from attest.measure import KernelHeader, PageOrder, SecureBoot, TdxLaunch, kernel_header_of, page_order_of

    order, header = PageOrder.BY_PAGE, None
    if guest.qemu_version is not None:
        order, header = page_order_of(guest.qemu_version), kernel_header_of(guest.qemu_version)
    return TdxLaunch(
        firmware=Path(ovmf),
        page_order=order if guest.page_order is None else PageOrder(guest.page_order),
        memory=guest.memory,
        kernel=_path(guest.kernel),
        kernel_header=header if guest.kernel_header is None else KernelHeader(guest.kernel_header),
        initrd=_path(guest.initrd),
        cmdline=guest.cmdline,
        secure_boot=SecureBoot(guest.secure_boot),
        acpi_tables=_path(guest.acpi_tables),
        acpi_loader=_path(guest.acpi_loader),
        acpi_rsdp=_path(guest.acpi_rsdp),
    )


def _dstack_launch(guest: GuestOptions, directory: str) -> tuple[TdxLaunch, bytes]:
    from attest.measure import PageOrder, dstack_launch, parse_vm_config, read_dstack_image, read_vm_config

    for option in ("ovmf", "kernel", "initrd", "cmdline", "memory", "qemu_version", "kernel_header"):
        if getattr(guest, option) is not None:
            raise click.UsageError(f"--{option.replace('_', '-')} follows from --dstack-image and --vm-config")
    if guest.vm_config is None:
        raise click.UsageError("--dstack-image needs --vm-config")
    image = read_dstack_image(Path(directory))
    launch = dstack_launch(
        image,
        parse_vm_config(read_vm_config(Path(guest.vm_config))),
        page_order=None if guest.page_order is None else PageOrder(guest.page_order),
        acpi_tables=_path(guest.acpi_tables),
    )
    return launch, image.os_image


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _document(launch: TdxLaunch, found: TdxMeasurements, os_image: bytes | None) -> dict[str, JsonValue]:
    measurement: dict[str, JsonValue] = {name: value.hex() for name, value in found.registers.items()}
    events: dict[str, JsonValue] = {
        register: [{"name": event.name, "digest": event.digest.hex()} for event in extending]
        for register, extending in found.events.items()
    }
    missing: dict[str, JsonValue] = dict(found.missing)
    return {
        "schema": MEASUREMENT_SCHEMA,
        "kind": "tdx",
        "page_order": str(launch.page_order),
        **({} if launch.kernel_header is None else {"kernel_header": str(launch.kernel_header)}),
        **({} if launch.memory is None else {"memory": launch.memory}),
        **({} if os_image is None else {"os_image": os_image.hex()}),
        "measurements": [measurement],
        "events": events,
        "missing": missing,
    }


def _origin(guest: GuestOptions, launch: TdxLaunch, os_image: bytes | None) -> str:
    paths = {
        "ovmf": launch.firmware,
        "kernel": launch.kernel,
        "initrd": launch.initrd,
        "acpi-tables": launch.acpi_tables,
        "acpi-loader": launch.acpi_loader,
        "acpi-rsdp": launch.acpi_rsdp,
    }
    return stated_origin(
        "attest measure tdx",
        files={name: None if path is None else str(path) for name, path in paths.items()},
        texts={
            "cmdline": launch.cmdline,
            "memory": None if launch.memory is None else f"{launch.memory >> 20}M",
            "page-order": launch.page_order,
            "kernel-header": launch.kernel_header,
            "secure-boot": guest.secure_boot,
            "dstack image": None if os_image is None else os_image.hex(),
        },
    )


def _print(found: TdxMeasurements, display: Display) -> None:
    for register, value in found.registers.items():
        click.echo(f"{_REGISTERS[register]:<6} {value.hex()}")
        if display.verbose:
            for event in found.events.get(register, ()):
                click.echo(f"       {event.digest.hex()}  {event.name}")
