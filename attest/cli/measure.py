"""``attest measure``: the expected measurement of a guest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.measure_gce import gce
from attest.cli.measure_tdx import tdx
from attest.cli.measurement_output import MEASUREMENT_SCHEMA, snippet, stated_origin
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.encoding import JsonValue

MAX_COUNTS = 256
"""Different numbers of virtual processors in one call."""


def _counts(text: str) -> tuple[int, ...]:
    """Read ``1,2,4``: numbers of virtual processors, each once."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) <= 5 for word in words) or len(words) > MAX_COUNTS:
        raise click.BadParameter(f"expected numbers with commas between, such as 1,2,4; got {text!r}")
    return tuple(dict.fromkeys(map(int, words)))


def _features(text: str) -> int:
    """Read a number, decimal or with 0x in front."""
    try:
        return int(text, 0)
    except ValueError as exc:
        raise click.BadParameter(f"expected a number such as 0x1, got {text!r}") from exc


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest measure snp --ovmf OVMF.fd --vcpus 1,2,4 --vcpu-type EPYC-Genoa",
        "attest measure tdx --ovmf OVMF.fd --kernel bzImage --initrd initrd.img --cmdline 'console=ttyS0' \\",
        "    --qemu-version 10.2 --memory 8G --acpi-tables tables.bin",
    ),
)
def measure() -> None:
    """Compute the measurement of a guest image before it starts, so that a policy can demand it."""


measure.add_command(tdx)
measure.add_command(gce)


@measure.command(
    short_help="Compute the launch digest of a SEV-SNP guest.",
    examples=(
        "attest measure snp --ovmf OVMF.fd --vcpus 4 --vcpu-type EPYC-Genoa",
        "attest measure snp --ovmf OVMF.amdsev.fd --kernel bzImage --initrd initrd.img \\",
        "    --cmdline 'console=ttyS0' --vcpus 1,2,4,8 --vcpu-type EPYC-Genoa --policy-snippet",
        "attest measure snp --vmm ec2 --ovmf ovmf_img.fd --vcpus 2",
    ),
)
@click.option("--ovmf", metavar="FILE", required=True, help="Firmware image, the exact file that the VMM loads.")
@click.option("--vcpus", type=_counts, metavar="N[,N...]", required=True, help="Numbers of virtual processors.")
@click.option("--vcpu-type", metavar="TYPE", help="QEMU's processor model, such as EPYC-Genoa. Needed with QEMU.")
@click.option(
    "--vmm",
    type=click.Choice(["qemu", "ec2", "gce"]),
    default="qemu",
    show_default=True,
    help="The VMM that starts it.",
)
@click.option("--kernel", metavar="FILE", help="Kernel that the VMM loads directly.")
@click.option("--initrd", metavar="FILE", help="Its initial RAM disk.")
@click.option("--cmdline", metavar="TEXT", help="Its command line, as the VMM passes it.")
@click.option(
    "--guest-features",
    type=_features,
    metavar="NUMBER",
    default="0x1",
    show_default=True,
    help="SEV_FEATURES of the guest. QEMU since 2024 often sets 0x21.",
)
@click.option("--policy-snippet", is_flag=True, help="Print reference_values of a policy, in YAML.")
@click.option("--name", metavar="NAME", default="guest", show_default=True, help="Name of the reference values.")
@display_options
def snp(
    *,
    ovmf: str,
    vcpus: tuple[int, ...],
    vcpu_type: str | None,
    vmm: str,
    kernel: str | None,
    initrd: str | None,
    cmdline: str | None,
    guest_features: int,
    policy_snippet: bool,
    name: str,
    display: Display,
) -> int:
    """Compute the launch digest of a SEV-SNP guest: MEASUREMENT in its report.

    Number and type of virtual processors are part of it, so that one image has many; --vcpus 1,2,4 gives one each.
    A file that cannot be measured is exit 2.
    """
    from attest.measure import SnpLaunch, Vmm, launch_digest

    if policy_snippet and display.json:
        raise click.UsageError("--policy-snippet and --json both use standard output")
    launches = [
        SnpLaunch(
            firmware=Path(ovmf),
            vcpus=count,
            vcpu_type=vcpu_type,
            vmm=Vmm(vmm),
            kernel=None if kernel is None else Path(kernel),
            initrd=None if initrd is None else Path(initrd),
            cmdline=cmdline,
            guest_features=guest_features,
        )
        for count in vcpus
    ]
    digests = [(launch.vcpus, launch_digest(launch).hex()) for launch in launches]
    if display.json:
        print_document(_document(launches[0].vmm, vcpu_type, guest_features, digests))
    elif policy_snippet:
        origin = stated_origin(
            "attest measure snp",
            files={"ovmf": ovmf, "kernel": kernel, "initrd": initrd},
            texts={
                "cmdline": cmdline,
                "vmm": vmm,
                "vcpu_type": vcpu_type,
                "guest features": f"{guest_features:#x}",
            },
        )
        click.echo(snippet({name: [(digest, f"{count} vCPU") for count, digest in digests]}, origin=origin), nl=False)
    else:
        for count, digest in digests:
            click.echo(digest if len(digests) == 1 else f"{count:>5} vCPU  {digest}")
    return 0


def _document(
    vmm: str, vcpu_type: str | None, guest_features: int, digests: list[tuple[int, str]]
) -> dict[str, JsonValue]:
    measurements: list[JsonValue] = [{"vcpus": count, "measurement": digest} for count, digest in digests]
    return {
        "schema": MEASUREMENT_SCHEMA,
        "kind": "sev-snp",
        "vmm": str(vmm),
        **({} if vcpu_type is None else {"vcpu_type": vcpu_type}),
        "guest_features": f"{guest_features:#x}",
        "measurements": measurements,
    }
