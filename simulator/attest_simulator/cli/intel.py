"""Intel's part of ``attest simulate``: quotes of TDX trust domains, collateral, and a service for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from attest.cli.option_values import hex_of, utc
from attest.cli.options import nonce_options
from attest.terminal.lazy_commands import ExampleCommand
from attest_simulator.cli.choices import DeviceChoice
from attest_simulator.cli.nvidia import device_options, with_devices, write_endorsements
from attest_simulator.cli.warning import shout

if TYPE_CHECKING:
    from attest.evidence.envelope import EvidenceItem
    from attest_simulator.intel import SimulatedPlatform, SimulatedTd


@click.command(
    cls=ExampleCommand,
    short_help="Make the quote of a simulated TDX trust domain.",
    examples=(
        "attest simulate td --nonce-text hello -o quote.bin --collateral-out intel.json",
        "attest simulate td --form envelope --nonce 00112233 -o evidence.json",
        "attest simulate td --out-of-date --debug -o bad.bin",
    ),
)
@click.option(
    "--platform",
    metavar="NAME",
    default="platform 0",
    show_default=True,
    help="Name of the machine; another name gives another machine.",
)
@click.option(
    "--quote-version",
    type=click.Choice(["4", "5"]),
    default="4",
    show_default=True,
    help="Version of the quote; 5 carries a TD report of TDX 1.5.",
)
@click.option("--mr-td", type=hex_of(48), metavar="HEX", help="Build-time measurement, 48 bytes.")
@nonce_options
@click.option("--command-line", metavar="TEXT", help="The kernel's command line, in the log and in RTMR2.")
@click.option("--no-secure-boot", is_flag=True, help="Booted without Secure Boot.")
@click.option("--debug", is_flag=True, help="A TD that the host may debug.")
@click.option("--out-of-date", "old", is_flag=True, help="On a platform whose TCB status is OutOfDate.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Time of Intel's collateral. Default: now.")
@click.option(
    "--form",
    type=click.Choice(["quote", "envelope"]),
    default="quote",
    show_default=True,
    help="Quote alone, or envelope with quote and event log.",
)
@click.option("--collateral-out", metavar="FILE", help="Write Intel's endorsements of the machine, a JSON bundle.")
@click.option("--eventlog-out", metavar="FILE", help="Write the event log of the boot (CCEL).")
@device_options(gpus=0)
@click.option("-o", "--output", metavar="FILE", required=True, help="Output file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
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
    from attest.cli.files import write_output
    from attest.cli.verification_inputs import one_report_data
    from attest.clock import this_second
    from attest.evidence.envelope import MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, Evidence, EvidenceItem

    machine = _platform(platform, old=old, at=moment or this_second())
    domain = _domain(machine, secure_boot=not no_secure_boot, command_line=command_line)
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
    write_endorsements(devices, at=moment or this_second(), force=force)
    if collateral_out is not None:
        write_output(collateral_out, machine.collateral("tdx", at=moment or this_second()).to_json(), force=force)
    if eventlog_out is not None:
        write_output(eventlog_out, log, force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Make Intel's endorsements of a simulated machine.",
    examples=(
        "attest simulate collateral -o intel.json",
        "attest verify quote.bin --allow-simulated --endorsements intel.json --offline",
    ),
)
@click.option(
    "--platform",
    metavar="NAME",
    default="platform 0",
    show_default=True,
    help="Name of the machine; all have one FMSPC.",
)
@click.option(
    "--tee", type=click.Choice(["tdx", "sgx"]), default="tdx", show_default=True, help="For TDX or for SGX quotes."
)
@click.option("--revoke", is_flag=True, help="The revocation list names the machine's certificate.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Current from the first of this month. Default: now.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Output file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
def collateral(*, platform: str, tee: str, revoke: bool, moment: datetime | None, output: str, force: bool) -> int:
    """Make TCB info, QE identity and revocation lists, in one JSON bundle (QuoteCollateralV3), current for 45 days."""
    from attest.cli.files import write_output
    from attest.clock import this_second

    at = moment or this_second()
    machine = _platform(platform, old=False, at=at)
    revoked = (machine.pck_template().serial,) if revoke else ()
    made = machine.collateral("sgx" if tee == "sgx" else "tdx", at=at, revoked=revoked)
    shout()
    write_output(output, made.to_json(), force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Serve simulated collateral of Intel on the loopback address.",
    examples=(
        "attest simulate pcs --port 8752",
        "attest verify quote.bin --allow-simulated --pcs http://127.0.0.1:8752",
    ),
)
@click.option(
    "--platform", metavar="NAME", default="platform 0", show_default=True, help="Name of the machine that it serves."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8752, show_default=True, help="Port; 0 for any.")
def pcs(platform: str, port: int) -> int:
    """Serve TCB info, QE identities and revocation lists of this month on 127.0.0.1, as the PCCS of a data centre does.

    It runs until interrupted, and prints its address first.
    """
    from attest_simulator.cli.services import serve_pcs

    shout()
    return serve_pcs(port, platform=platform)


def _domain(platform: SimulatedPlatform, *, secure_boot: bool, command_line: str | None) -> SimulatedTd:
    """Return a booted trust domain; None uses the default command line."""
    from attest_simulator.intel import SimulatedTd, typical_boot

    boot = typical_boot(secure_boot=secure_boot)
    if command_line is not None:
        boot = typical_boot(secure_boot=secure_boot, command_line=command_line)
    return SimulatedTd(platform=platform, log=boot)


def _platform(name: str, *, old: bool, at: datetime) -> SimulatedPlatform:
    """Return the machine of a name, with current or OutOfDate firmware."""
    from attest_simulator.changing_machine import out_of_date
    from attest_simulator.intel import SimulatedPlatform

    machine = SimulatedPlatform.of(name)
    return out_of_date(machine, at=at) if old else machine
