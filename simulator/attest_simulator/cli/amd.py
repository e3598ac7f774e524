"""AMD's part of ``attest simulate``: reports of SEV-SNP guests, endorsements, and a key distribution service."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from attest.cli.option_values import hex_of, utc
from attest.cli.options import PRODUCTS, nonce_options
from attest.terminal.lazy_commands import ExampleCommand
from attest_simulator.cli.choices import DeviceChoice
from attest_simulator.cli.nvidia import device_options, with_devices, write_endorsements
from attest_simulator.cli.warning import shout

if TYPE_CHECKING:
    from attest.evidence.envelope import EvidenceItem
    from attest_simulator import SimulatedChip

_TCB_PART = re.compile(r"(fmc|bootloader|tee|snp|microcode)=([0-9]{1,3})")


class _Tcb(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``bootloader=10,tee=0,snp=27,microcode=84``."""

    name = "tcb"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Parse the value, or raise a usage error."""
        if isinstance(value, dict):
            return value
        parts = [_TCB_PART.fullmatch(part) for part in str(value).split(",")]
        found = {match[1]: int(match[2]) for match in parts if match is not None}
        if len(found) != len(parts) or max(found.values(), default=256) > 255:
            self.fail(f"expected parts such as bootloader=10,tee=0,snp=27,microcode=84; got {value!r}", param, ctx)
        return found


def chip_options(command: Callable[..., Any]) -> Callable[..., Any]:  # Any: the command's own arguments
    """Add the options that describe a chip."""
    for option in (
        click.option(
            "--tcb", type=_Tcb(), metavar="PART=LEVEL,...", help="Firmware levels; all parts. Default: recent ones."
        ),
        click.option(
            "--chip",
            metavar="NAME",
            default="chip 0",
            show_default=True,
            help="Name of the chip; another name gives another chip.",
        ),
        click.option(
            "--report-version",
            type=click.IntRange(2, 5),
            default=5,
            show_default=True,
            help="Version of the attestation report.",
        ),
        click.option(
            "--product", type=click.Choice(PRODUCTS), default="Genoa", show_default=True, help="Product line."
        ),
    ):
        command = option(command)
    return command


@click.command(
    cls=ExampleCommand,
    short_help="Make evidence of a simulated guest.",
    examples=(
        "attest simulate evidence --nonce-text hello -o evidence.bin",
        "attest simulate evidence --product Turin --form envelope --nonce 00112233 -o evidence.json",
        "attest simulate evidence --tcb bootloader=9,tee=0,snp=20,microcode=60 --debug -o bad.bin",
    ),
)
@chip_options
@click.option("--measurement", type=hex_of(48), metavar="HEX", help="Launch digest, 48 bytes.")
@nonce_options
@click.option("--host-data", type=hex_of(32), metavar="HEX", help="HOST_DATA, 32 bytes.")
@click.option(
    "--vmpl", type=click.IntRange(0, 3), default=0, show_default=True, help="Privilege level that requests the report."
)
@click.option("--debug", is_flag=True, help="A guest that the host may debug.")
@click.option("--vlek", metavar="CSP", help="Signed with the VLEK of this cloud provider instead of the chip's VCEK.")
@click.option("--no-crl", is_flag=True, help="Omit the revocation list from the endorsements with the report.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="The revocation list covers this year. Default: now.")
@click.option(
    "--form",
    type=click.Choice(["snp-extended", "snp-report", "envelope"]),
    default="snp-extended",
    show_default=True,
    help="Report with its certificates, report alone, or envelope.",
)
@device_options(gpus=0)
@click.option("-o", "--output", metavar="FILE", required=True, help="Output file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
def evidence(
    *,
    product: str,
    report_version: int,
    chip: str,
    tcb: dict[str, int] | None,
    measurement: bytes | None,
    nonce: bytes | None,
    nonce_text: bytes | None,
    report_data: bytes | None,
    host_data: bytes | None,
    vmpl: int,
    debug: bool,
    vlek: str | None,
    no_crl: bool,
    moment: datetime | None,
    form: str,
    devices: DeviceChoice,
    output: str,
    force: bool,
) -> int:
    """Make evidence of a simulated guest, perhaps with GPUs. The same options give the same bytes."""
    from attest.cli.files import write_output
    from attest.cli.verification_inputs import one_report_data
    from attest.clock import this_second
    from attest.evidence.envelope import MEDIA_SNP_EXTENDED, Evidence, EvidenceItem
    from attest_simulator import SimulatedGuest, simulated_crl

    machine = chip_of(product, report_version, chip, tcb, vlek)
    guest = SimulatedGuest(chip=machine, vmpl=vmpl, policy=0x30000 | debug << 19)
    guest = replace(guest, measurement=measurement or guest.measurement, host_data=host_data or guest.host_data)
    data = one_report_data(nonce=nonce, nonce_text=nonce_text, report_data=report_data) or bytes(64)
    crl = None if no_crl else simulated_crl(machine.product, at=moment or this_second())

    def cpu(report_data: bytes) -> tuple[EvidenceItem, ...]:
        extended = guest.extended_report(report_data, crl=crl)
        return (EvidenceItem(name="cpu", media_type=MEDIA_SNP_EXTENDED, value=extended),)

    if devices.any:
        devices.require_usable_with(form, report_data)
        made = with_devices(devices, nonce if nonce is not None else nonce_text, cpu)
    elif form == "envelope":
        made = Evidence(items=cpu(data)).to_json()
    else:
        made = guest.report(data) if form == "snp-report" else cpu(data)[0].value
    shout()
    write_output(output, made, force=force)
    write_endorsements(devices, at=moment or this_second(), force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Make the endorsement bundle of a simulated chip.",
    examples=(
        "attest simulate endorsements -o chip.endorsements",
        "attest verify report.bin --allow-simulated --endorsements chip.endorsements --offline",
    ),
)
@chip_options
@click.option("--at", "moment", type=utc, metavar="TIME", help="Start of its validity. Default: now.")
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="Validity of the bundle.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Bundle to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
def endorsements(
    *,
    product: str,
    report_version: int,
    chip: str,
    tcb: dict[str, int] | None,
    moment: datetime | None,
    days: int,
    output: str,
    force: bool,
) -> int:
    """Make a bundle of everything that a verifier needs for the reports of a simulated chip."""
    from attest.cli.files import write_output
    from attest.clock import this_second
    from attest_simulator.cli.services import simulated_bundle

    machine = chip_of(product, report_version, chip, tcb, None)
    shout()
    write_output(output, simulated_bundle(machine, at=moment or this_second(), days=days), force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Serve a simulated key distribution service on the loopback address.",
    examples=(
        "attest simulate kds --port 8751",
        "attest verify report.bin --allow-simulated --kds http://127.0.0.1:8751",
    ),
)
@click.option("--port", type=click.IntRange(0, 65535), default=8751, show_default=True, help="Port; 0 for any.")
def kds(port: int) -> int:
    """Serve a simulated key distribution service on 127.0.0.1, until interrupted. Prints its address first."""
    from attest_simulator.cli.services import serve_kds

    shout()
    return serve_kds(port)


def chip_of(product: str, report_version: int, name: str, tcb: dict[str, int] | None, csp: str | None) -> SimulatedChip:
    """Return the chip of the options.

    Raises:
        UsageError: firmware components that the product line does not have, or missing ones.
    """
    from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
    from attest_simulator import SimulatedChip

    line = SnpProduct(product)
    parts = {"bootloader", "tee", "snp", "microcode"} | ({"fmc"} if line.has_fmc else set())
    if tcb is not None and set(tcb) != parts:
        raise click.UsageError(f"--tcb: {product} has exactly the parts {', '.join(sorted(parts))}")
    levels = None if tcb is None else SnpTcbVersion(**tcb)
    return SimulatedChip.of(line, name=name, report_version=report_version, tcb=levels, csp_id=csp)
