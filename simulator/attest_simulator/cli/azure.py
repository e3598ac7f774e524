"""Azure's part of ``attest simulate``: evidence of confidential VMs, and their metadata service."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

import click

from attest.cli.option_values import hex_of, nonce_text, utc
from attest.cli.options import PRODUCTS
from attest.terminal.lazy_commands import ExampleCommand
from attest_simulator.cli.choices import DeviceChoice, HostChoice
from attest_simulator.cli.nvidia import device_options, with_devices, write_endorsements
from attest_simulator.cli.warning import shout

DEFAULT_IMDS_PORT = 8754
MAX_EXTRA_BYTES = 48
_PCR = re.compile(r"([0-9]{1,2})=([0-9a-fA-F]{64})")
_MAX_PCR = 23
_Command = Callable[..., Any]  # Any: the command's own arguments


class _Pcr(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``11=`` and 64 hex digits."""

    name = "pcr"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, bytes]:
        """Parse the value, or raise a usage error."""
        if isinstance(value, tuple):
            return value
        match = _PCR.fullmatch(str(value))
        if match is None or int(match[1]) > _MAX_PCR:
            self.fail(f"expected a register from 0 to {_MAX_PCR}, '=' and 64 hex digits; got {value!r}", param, ctx)
        return int(match[1]), bytes.fromhex(match[2])


def _host_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--host",
            metavar="NAME",
            default="host 0",
            show_default=True,
            help="Name of the host; another name gives another host.",
        ),
        click.option(
            "--product", type=click.Choice(PRODUCTS), default="Genoa", show_default=True, help="Of an SNP host."
        ),
        click.option(
            "--tee", type=click.Choice(["snp", "tdx"]), default="snp", show_default=True, help="What the host has."
        ),
    ):
        command = option(command)
    return command


def _vm_options(command: _Command) -> _Command:
    """Add the options of a VM; the command gets one ``host``, and ``pcrs`` by number."""

    @wraps(command)
    def run(
        *,
        tee: str,
        product: str,
        host: str,
        measurement: bytes | None,
        out_of_date: bool,
        pcrs: tuple[tuple[int, bytes], ...],
        **options: object,
    ) -> object:
        if out_of_date and tee != "tdx":
            raise click.UsageError("--out-of-date: only Intel has this status; add --tee tdx")
        values = dict(pcrs)
        if len(values) != len(pcrs):
            raise click.UsageError("--pcr: a register is named twice")
        choice = HostChoice(tee=tee, product=product, host=host, measurement=measurement, out_of_date=out_of_date)
        return command(host=choice, pcrs=values, **options)

    found: _Command = run
    for option in reversed(
        (
            click.option(
                "--vm",
                metavar="NAME",
                default="VM 0",
                show_default=True,
                help="Name of the VM; another name gives another VM.",
            ),
            click.option("--vm-id", metavar="TEXT", help="vmUniqueId. Default: a UUID of the name."),
            click.option("--measurement", type=hex_of(48), metavar="HEX", help="Of the paravisor, 48 bytes."),
            click.option("--out-of-date", is_flag=True, help="TDX: on a host whose TCB status is OutOfDate."),
            click.option("--no-secure-boot", is_flag=True, help="Booted without Secure Boot, also in PCR 7."),
            click.option("--no-console", is_flag=True, help="The host has no console of the VM."),
            click.option(
                "--pcr",
                "pcrs",
                type=_Pcr(),
                multiple=True,
                metavar="N=HEX",
                help="Value of a register of the virtual TPM, 32 bytes; repeatable.",
            ),
        )
    ):
        found = option(found)
    return _host_options(found)


@click.command(
    cls=ExampleCommand,
    short_help="Make evidence of a simulated confidential VM on Azure.",
    examples=(
        "attest simulate azure --nonce-text hello -o vm.json --endorsements-out vendor.endorsements",
        "attest verify vm.json --nonce-text hello --endorsements vendor.endorsements --allow-simulated --offline",
        "attest simulate azure --eventlog-out boot.log --command-line 'ro quiet' --nonce-text hello -o vm.json",
        "attest simulate azure --tee tdx --no-secure-boot --form coco-v2 --nonce 00112233 -o vm.json",
        "attest simulate azure --gpus 1 --form envelope -o machine.json --device-endorsements-out nvidia.endorsements",
    ),
)
@_vm_options
@click.option(
    "--nonce",
    type=hex_of(longest=MAX_EXTRA_BYTES),
    metavar="HEX",
    help="Nonce of the virtual TPM's quote (extraData).",
)
@click.option("--nonce-text", type=nonce_text, metavar="TEXT", help="The same, as text.")
@click.option("--report-data", type=hex_of(64), metavar="HEX", help="User data among the runtime claims, 64 bytes.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Time of the endorsements. Default: now.")
@click.option(
    "--form",
    type=click.Choice(["coco-v0", "coco-v1", "coco-v2", "attestation-rs", "envelope"]),
    default="coco-v1",
    show_default=True,
    help="JSON of Trustee or attestation-rs, or envelope.",
)
@click.option("--endorsements-out", metavar="FILE", help="Write the endorsements of AMD or Intel for the host.")
@click.option(
    "--eventlog-out",
    metavar="FILE",
    help="Write the event log of the boot, and quote the registers that it replays to.",
)
@click.option("--command-line", metavar="TEXT", help="With --eventlog-out: the kernel's command line in the log.")
@device_options(gpus=0)
@click.option("-o", "--output", metavar="FILE", required=True, help="Output file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
def azure(
    *,
    host: HostChoice,
    pcrs: dict[int, bytes],
    vm: str,
    vm_id: str | None,
    no_secure_boot: bool,
    no_console: bool,
    nonce: bytes | None,
    nonce_text: bytes | None,
    report_data: bytes | None,
    moment: datetime | None,
    form: str,
    endorsements_out: str | None,
    eventlog_out: str | None,
    command_line: str | None,
    devices: DeviceChoice,
    output: str,
    force: bool,
) -> int:
    """Make evidence of a simulated VM, perhaps with GPUs and the log of its boot. The same options, the same bytes."""
    from attest.cli.files import write_output
    from attest.cli.verification_inputs import one_nonce
    from attest.clock import this_second
    from attest_simulator.cli.azure_machines import boot_of, host_endorsements, vm_evidence, vm_of
    from attest_simulator.tpm_log import write_tpm_log

    if command_line is not None and eventlog_out is None:
        raise click.UsageError("--command-line: it is measured with the log of the boot; add --eventlog-out FILE")
    boot = boot_of(secure_boot=not no_secure_boot, command_line=command_line)
    machine = vm_of(
        host,
        at=moment or this_second(),
        name=vm,
        vm_unique_id=vm_id,
        secure_boot=not no_secure_boot,
        console_enabled=not no_console,
        pcrs=pcrs,
        boot=None if eventlog_out is None else boot,
    )
    asked = one_nonce(nonce, nonce_text)
    if devices.any:
        devices.require_usable_with(form, report_data)
        made = with_devices(devices, asked, machine.items)
    elif asked is not None and len(asked) > MAX_EXTRA_BYTES:
        raise click.UsageError(
            f"--nonce: the nonce of a TPM's quote has at most {MAX_EXTRA_BYTES} bytes, got {len(asked)}"
        )
    else:
        made = vm_evidence(machine, form=form, nonce=asked or b"", user_data=report_data)
    shout()
    write_output(output, made, force=force)
    write_endorsements(devices, at=moment or this_second(), force=force)
    if endorsements_out is not None:
        write_output(endorsements_out, host_endorsements(machine.host, at=moment or this_second()), force=force)
    if eventlog_out is not None:
        write_output(eventlog_out, write_tpm_log(boot), force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Serve the metadata service beside simulated VMs of Azure on the loopback address.",
    examples=(
        "attest simulate imds --port 8754",
        "curl -H 'Metadata: true' http://127.0.0.1:8754/metadata/THIM/amd/certification",
        "attest simulate imds --tee tdx --busy 429 --busy 503",
    ),
)
@_host_options
@click.option(
    "--busy",
    type=click.Choice(["429", "500", "503"]),
    multiple=True,
    help="Answer the first request with this status, and the next ones with the next of them. Repeatable.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_IMDS_PORT,
    show_default=True,
    help="Port; 0 for any.",
)
def imds(*, tee: str, product: str, host: str, busy: tuple[str, ...], port: int) -> int:
    """Serve the host's VCEK, or quotes for its TDREPORTs, on 127.0.0.1, until interrupted. Prints its address first."""
    from attest_simulator.cli.azure_machines import serve_imds

    shout()
    return serve_imds(port, HostChoice(tee=tee, product=product, host=host), busy=tuple(map(int, busy)))
