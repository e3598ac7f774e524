"""``attest simulate``: SIMULATED hardware, for trying things out and for tests of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from attest_simulator.cli.azure import azure, imds
from attest_simulator.cli.nvidia import DeviceChoice, device_options, gpu, nvidia, with_devices, write_endorsements

from attest.cli.option_values import TIME, Hex
from attest.cli.options import PRODUCTS, nonce_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest_simulator import SimulatedChip
    from attest_simulator.intel import SimulatedPlatform

    from attest.encoding import JsonValue
    from attest.evidence.envelope import EvidenceItem

__all__ = ["shout", "simulate"]

SHOUT = "SIMULATED: everybody has the keys; it proves nothing about hardware"
ANCHORS_SCHEMA = "attest.simulated-anchors/1"
_TCB_PART = re.compile(r"(fmc|bootloader|tee|snp|microcode)=([0-9]{1,3})")


def shout() -> None:
    """Say on standard error what nobody should overlook; there is no way to silence it."""
    click.echo(f"*** {SHOUT} ***", err=True)


class _Tcb(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``bootloader=10,tee=0,snp=27,microcode=84``."""

    name = "tcb"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Read it, or fail as wrong usage."""
        if isinstance(value, dict):
            return value
        parts = [_TCB_PART.fullmatch(part) for part in str(value).split(",")]
        found = {match[1]: int(match[2]) for match in parts if match is not None}
        if len(found) != len(parts) or max(found.values(), default=256) > 255:
            self.fail(f"expected parts such as bootloader=10,tee=0,snp=27,microcode=84; got {value!r}", param, ctx)
        return found


def _chip_options(command: Callable[..., Any]) -> Callable[..., Any]:  # Any: the command's own arguments
    for option in (
        click.option(
            "--tcb", type=_Tcb(), metavar="PART=LEVEL,...", help="Firmware levels; all parts. Default: recent ones."
        ),
        click.option("--chip", metavar="NAME", default="chip 0", show_default=True, help="Another name, another chip."),
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


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest simulate evidence --nonce-text hello -o evidence.bin",
        "attest verify evidence.bin --nonce-text hello --allow-simulated --offline",
        "attest simulate td --nonce-text hello -o quote.bin --collateral-out intel.json --eventlog-out boot.log",
        "attest verify quote.bin --eventlog boot.log --endorsements intel.json --nonce-text hello --allow-simulated",
        "attest simulate td --gpus 8 --switches 4 --form envelope -o machine.json",
        "attest simulate azure --nonce-text hello -o vm.json --endorsements-out vendor.endorsements",
        "attest simulate machine -- run --key MODEL=my-model -- ./server",
    ),
)
def simulate() -> None:
    """Make SIMULATED hardware: evidence that is right in every byte, under roots that prove nothing.

    All its keys are public by design. 'attest verify' refuses it unless told --allow-simulated.
    """


@simulate.command(
    short_help="Make evidence of a simulated guest.",
    examples=(
        "attest simulate evidence --nonce-text hello -o evidence.bin",
        "attest simulate evidence --product Turin --form envelope --nonce 00112233 -o evidence.json",
        "attest simulate evidence --tcb bootloader=9,tee=0,snp=20,microcode=60 --debug -o bad.bin",
    ),
)
@_chip_options
@click.option("--measurement", type=Hex(length=48), metavar="HEX", help="Launch digest, 48 bytes.")
@nonce_options
@click.option("--host-data", type=Hex(length=32), metavar="HEX", help="HOST_DATA, 32 bytes.")
@click.option("--vmpl", type=click.IntRange(0, 3), default=0, show_default=True, help="Privilege level of who asks.")
@click.option("--debug", is_flag=True, help="A guest that the host may debug.")
@click.option("--vlek", metavar="CSP", help="Signed with the VLEK of this cloud provider instead of the chip's VCEK.")
@click.option("--no-crl", is_flag=True, help="Leave the revocation list out of what comes with the report.")
@click.option("--at", "moment", type=TIME, metavar="TIME", help="The revocation list covers this year. Default: now.")
@click.option(
    "--form",
    type=click.Choice(["snp-extended", "snp-report", "envelope"]),
    default="snp-extended",
    show_default=True,
    help="Report with its certificates, report alone, or envelope.",
)
@device_options(gpus=0)
@click.option("-o", "--output", metavar="FILE", required=True, help="File to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
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
    from attest_simulator import SimulatedGuest, simulated_crl

    from attest.cli.clock import now
    from attest.cli.files import write_output
    from attest.cli.verification_inputs import one_report_data
    from attest.evidence.envelope import MEDIA_SNP_EXTENDED, Evidence, EvidenceItem

    machine = _chip(product, report_version, chip, tcb, vlek)
    guest = SimulatedGuest(chip=machine, vmpl=vmpl, policy=0x30000 | debug << 19)
    guest = replace(guest, measurement=measurement or guest.measurement, host_data=host_data or guest.host_data)
    data = one_report_data(nonce=nonce, nonce_text=nonce_text, report_data=report_data) or bytes(64)
    crl = None if no_crl else simulated_crl(machine.product, at=moment or now())

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
    write_endorsements(devices, at=moment or now(), force=force)
    return 0


@simulate.command(
    short_help="Make the endorsement bundle of a simulated chip.",
    examples=(
        "attest simulate endorsements -o chip.endorsements",
        "attest verify report.bin --allow-simulated --endorsements chip.endorsements --offline",
    ),
)
@_chip_options
@click.option("--at", "moment", type=TIME, metavar="TIME", help="Moment from which it may be used. Default: now.")
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How long it may be used.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Bundle to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
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
    from attest_simulator.cli.services import simulated_bundle

    from attest.cli.clock import now
    from attest.cli.files import write_output

    machine = _chip(product, report_version, chip, tcb, None)
    shout()
    write_output(output, simulated_bundle(machine, at=moment or now(), days=days), force=force)
    return 0


@simulate.command(
    short_help="Make the quote of a simulated TDX trust domain.",
    examples=(
        "attest simulate td --nonce-text hello -o quote.bin --collateral-out intel.json",
        "attest simulate td --form envelope --nonce 00112233 -o evidence.json",
        "attest simulate td --out-of-date --debug -o bad.bin",
    ),
)
@click.option(
    "--platform", metavar="NAME", default="platform 0", show_default=True, help="Another name, another machine."
)
@click.option(
    "--quote-version",
    type=click.Choice(["4", "5"]),
    default="4",
    show_default=True,
    help="Version of the quote; 5 carries a TD report of TDX 1.5.",
)
@click.option("--mr-td", type=Hex(length=48), metavar="HEX", help="Build-time measurement, 48 bytes.")
@nonce_options
@click.option("--command-line", metavar="TEXT", help="The kernel's, as the log tells it and RTMR2 measures it.")
@click.option("--no-secure-boot", is_flag=True, help="Booted without Secure Boot.")
@click.option("--debug", is_flag=True, help="A TD that the host may debug.")
@click.option("--out-of-date", "old", is_flag=True, help="On a platform that Intel calls OutOfDate.")
@click.option("--at", "moment", type=TIME, metavar="TIME", help="Moment of which the collateral is. Default: now.")
@click.option(
    "--form",
    type=click.Choice(["quote", "envelope"]),
    default="quote",
    show_default=True,
    help="Quote alone, or envelope with quote and event log.",
)
@click.option("--collateral-out", metavar="FILE", help="Write what Intel says of the machine, a JSON bundle.")
@click.option("--eventlog-out", metavar="FILE", help="Write the event log of the boot (CCEL).")
@device_options(gpus=0)
@click.option("-o", "--output", metavar="FILE", required=True, help="File to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def td(
    *,
    platform: str,
    quote_version: str,
    mr_td: bytes | None,
    nonce: bytes | None,
    nonce_text: bytes | None,
    report_data: bytes | None,
    command_line: str | None,
    no_secure_boot: bool,
    debug: bool,
    old: bool,
    moment: datetime | None,
    form: str,
    collateral_out: str | None,
    eventlog_out: str | None,
    devices: DeviceChoice,
    output: str,
    force: bool,
) -> int:
    """Make the quote of a simulated trust domain, perhaps with GPUs. The same options give the same bytes."""
    from attest_simulator.intel import SimulatedTd, typical_boot

    from attest.cli.clock import now
    from attest.cli.files import write_output
    from attest.cli.verification_inputs import one_report_data
    from attest.evidence.envelope import MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, Evidence, EvidenceItem

    machine = _platform(platform, old=old, at=moment or now())
    secure = not no_secure_boot
    boot = typical_boot(secure_boot=secure)
    if command_line is not None:
        boot = typical_boot(secure_boot=secure, command_line=command_line)
    domain = SimulatedTd(platform=machine, log=boot)
    domain = replace(domain, mr_td=mr_td or domain.mr_td, td_attributes=domain.td_attributes | debug)
    data = one_report_data(nonce=nonce, nonce_text=nonce_text, report_data=report_data) or bytes(64)
    log = domain.event_log()

    def cpu(report_data: bytes) -> tuple[EvidenceItem, ...]:
        quote = domain.quote(report_data, version=int(quote_version))
        return (
            EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote),
            EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=log),
        )

    if devices.any:
        devices.require_usable_with(form, report_data)
        made = with_devices(devices, nonce if nonce is not None else nonce_text, cpu)
    else:
        items = cpu(data)
        made = Evidence(items=items).to_json() if form == "envelope" else items[0].value
    shout()
    write_output(output, made, force=force)
    write_endorsements(devices, at=moment or now(), force=force)
    if collateral_out is not None:
        write_output(collateral_out, machine.collateral("tdx", at=moment or now()).to_json(), force=force)
    if eventlog_out is not None:
        write_output(eventlog_out, log, force=force)
    return 0


@simulate.command(
    short_help="Make what Intel says of a simulated machine.",
    examples=(
        "attest simulate collateral -o intel.json",
        "attest verify quote.bin --allow-simulated --endorsements intel.json --offline",
    ),
)
@click.option(
    "--platform", metavar="NAME", default="platform 0", show_default=True, help="Whose; they all have one FMSPC."
)
@click.option(
    "--tee", type=click.Choice(["tdx", "sgx"]), default="tdx", show_default=True, help="For TDX or for SGX quotes."
)
@click.option("--revoke", is_flag=True, help="The revocation list names the machine's certificate.")
@click.option("--at", "moment", type=TIME, metavar="TIME", help="Current from the first of this month. Default: now.")
@click.option("-o", "--output", metavar="FILE", required=True, help="File to write; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def collateral(*, platform: str, tee: str, revoke: bool, moment: datetime | None, output: str, force: bool) -> int:
    """Make TCB info, QE identity and revocation lists, in one JSON bundle (QuoteCollateralV3), current for 45 days."""
    from attest.cli.clock import now
    from attest.cli.files import write_output

    at = moment or now()
    machine = _platform(platform, old=False, at=at)
    revoked = (machine.pck_template().serial,) if revoke else ()
    made = machine.collateral("sgx" if tee == "sgx" else "tdx", at=at, revoked=revoked)
    shout()
    write_output(output, made.to_json(), force=force)
    return 0


@simulate.command(
    short_help="Serve a simulated key distribution service on the loopback address.",
    examples=(
        "attest simulate kds --port 8751",
        "attest verify report.bin --allow-simulated --kds http://127.0.0.1:8751",
    ),
)
@click.option("--port", type=click.IntRange(0, 65535), default=8751, show_default=True, help="0 takes any free port.")
def kds(port: int) -> int:
    """Serve a simulated key distribution service on 127.0.0.1, until interrupted. Prints its address first."""
    from attest_simulator.cli.services import serve_kds

    shout()
    return serve_kds(port)


@simulate.command(
    short_help="Serve simulated collateral of Intel on the loopback address.",
    examples=(
        "attest simulate pcs --port 8752",
        "attest verify quote.bin --allow-simulated --pcs http://127.0.0.1:8752",
    ),
)
@click.option("--platform", metavar="NAME", default="platform 0", show_default=True, help="The machine that it knows.")
@click.option("--port", type=click.IntRange(0, 65535), default=8752, show_default=True, help="0 takes any free port.")
def pcs(platform: str, port: int) -> int:
    """Serve TCB info, QE identities and revocation lists of this month on 127.0.0.1, as the PCCS of a data centre does.

    It runs until interrupted, and prints its address first.
    """
    from attest_simulator.cli.services import serve_pcs

    shout()
    return serve_pcs(port, platform=platform)


@simulate.command(
    short_help="Show the simulator's roots.", examples=("attest simulate anchors", "attest simulate anchors --json")
)
@display_options
def anchors(display: Display) -> int:
    """Show the simulator's roots. They are accepted with --allow-simulated alone; an anchor file refuses them."""
    from attest.cli.output import print_document
    from attest.endorsements.anchors import TrustAnchors

    shout()
    roots = TrustAnchors.simulation().anchors
    if display.json:
        rows: list[JsonValue] = [
            {"name": r.name, "product": r.product, "spki_sha256": r.spki_sha256.hex()} for r in roots
        ]
        print_document({"schema": ANCHORS_SCHEMA, "simulated": True, "anchors": rows})
    elif not display.quiet:
        for root in roots:
            click.echo(f"{root.name:24} {root.spki_sha256.hex()}")
    return 0


@simulate.command(
    short_help="Run a command of attest on a simulated guest.",
    context_settings={"allow_interspersed_args": False},
    examples=(
        "attest simulate machine -- collect evidence -o evidence.json",
        "attest simulate machine -- run --key MODEL=my-model -- ./server",
        "attest simulate machine --tcb bootloader=9,tee=0,snp=20,microcode=60 -- key get my-model --out /dev/shm/key",
    ),
)
@click.argument("arguments", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@_chip_options
@click.option("--measurement", type=Hex(length=48), metavar="HEX", help="Launch digest, 48 bytes.")
def machine(
    *,
    arguments: tuple[str, ...],
    product: str,
    report_version: int,
    chip: str,
    tcb: dict[str, int] | None,
    measurement: bytes | None,
) -> int:
    """Run COMMAND, a command of attest with its arguments, as it would run on a SIMULATED SEV-SNP guest without GPUs.

    For trying out what collects evidence, such as 'key get', 'run', 'unseal' and 'collect', where there is no TEE. A
    service gives such a machine nothing unless it allows simulated evidence, and the policy of the key as well. The
    exit code is the command's own.
    """
    from attest_simulator import SimulatedGuest
    from attest_simulator.cli.guest_machine import simulated_machine

    from attest.cli.main import cli

    guest = SimulatedGuest(chip=_chip(product, report_version, chip, tcb, None))
    named = arguments[0] == "attest" and len(arguments) > 1  # put before a whole command line
    shout()
    with simulated_machine(replace(guest, measurement=measurement or guest.measurement)) as access:
        return int(cli.main(list(arguments[named:]), standalone_mode=False, obj=access))


simulate.add_command(azure)
simulate.add_command(imds)
simulate.add_command(gpu)
simulate.add_command(nvidia)


def _chip(product: str, report_version: int, name: str, tcb: dict[str, int] | None, csp: str | None) -> SimulatedChip:
    """Make the chip that the options describe.

    Raises:
        UsageError: firmware parts that this product line does not have, or some that are missing.
    """
    from attest_simulator import SimulatedChip

    from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion

    line = SnpProduct(product)
    parts = {"bootloader", "tee", "snp", "microcode"} | ({"fmc"} if line.has_fmc else set())
    if tcb is not None and set(tcb) != parts:
        raise click.UsageError(f"--tcb: {product} has exactly the parts {', '.join(sorted(parts))}")
    levels = None if tcb is None else SnpTcbVersion(**tcb)
    return SimulatedChip.of(line, name=name, report_version=report_version, tcb=levels, csp_id=csp)


def _platform(name: str, *, old: bool, at: datetime) -> SimulatedPlatform:
    """Make the machine of a name, with current firmware or with that of a level which is OutOfDate."""
    from attest_simulator.cli.services import out_of_date
    from attest_simulator.intel import SimulatedPlatform

    machine = SimulatedPlatform.of(name)
    return out_of_date(machine, at=at) if old else machine
