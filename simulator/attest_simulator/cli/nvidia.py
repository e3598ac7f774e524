"""NVIDIA's part of ``attest simulate``: GPUs and switches, alone or in a machine, and NVIDIA's services."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from attest.cli.option_values import hex_of, utc
from attest.terminal.lazy_commands import ExampleCommand
from attest_simulator.cli.choices import NONCE_BYTES, DeviceChoice
from attest_simulator.cli.warning import shout

if TYPE_CHECKING:
    from attest.evidence.envelope import EvidenceItem

DEFAULT_DRIVER = "580.95.05"
MAX_GPUS, MAX_SWITCHES = 8, 4
_DRIVER = re.compile(r"[0-9]{3}(?:\.[0-9]{2,3}){1,2}")
_Command = Callable[..., Any]  # Any: the command's own arguments


class _Driver(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """``580.95.05``."""

    name = "version"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parse the value, or raise a usage error."""
        if not _DRIVER.fullmatch(str(value)):
            self.fail(f"expected a driver version such as {DEFAULT_DRIVER}, got {value!r}", param, ctx)
        return str(value)


def device_options(*, gpus: int) -> Callable[[_Command], _Command]:
    """Add the options of devices; the command gets one ``devices``.

    Args:
        gpus: default number of GPUs.
    """

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def run(
            *,
            gpus: int,
            switches: int,
            architecture: str,
            driver: str,
            board: str,
            dev_tools: bool,
            device_endorsements_out: str | None,
            device_days: int,
            **options: object,
        ) -> object:
            devices = DeviceChoice(
                gpus=gpus,
                switches=switches,
                architecture=cast('Literal["hopper", "blackwell"]', architecture),  # click has checked it
                driver=driver,
                board=board,
                dev_tools=dev_tools,
                endorsements_out=device_endorsements_out,
                days=device_days,
            )
            return command(devices=devices, **options)

        found: _Command = run
        for option in reversed(_options(gpus)):
            found = option(found)
        return found

    return decorate


def _options(gpus: int) -> tuple[Callable[[_Command], _Command], ...]:
    return (
        click.option(
            "--gpus",
            type=click.IntRange(0, MAX_GPUS),
            default=gpus,
            show_default=True,
            help="Number of NVIDIA GPUs.",
        ),
        click.option(
            "--switches",
            type=click.IntRange(0, MAX_SWITCHES),
            default=0,
            show_default=True,
            help="Number of NVSwitches; with any, the GPUs are behind protected PCIe.",
        ),
        click.option(
            "--architecture",
            type=click.Choice(["hopper", "blackwell"]),
            default="hopper",
            show_default=True,
            help="Of the GPUs.",
        ),
        click.option(
            "--driver",
            type=_Driver(),
            metavar="VERSION",
            default=DEFAULT_DRIVER,
            show_default=True,
            help="Version of NVIDIA's driver.",
        ),
        click.option(
            "--board",
            metavar="NAME",
            default="board 0",
            show_default=True,
            help="Name of the devices; another name gives other devices.",
        ),
        click.option("--dev-tools", is_flag=True, help="NVML reports that developer tools can read the GPUs' memory."),
        click.option(
            "--device-endorsements-out",
            metavar="FILE",
            help="Write NVIDIA's endorsements of the devices, RIMs and OCSP answers, as a bundle.",
        ),
        click.option(
            "--device-days",
            type=click.IntRange(1, 366),
            default=7,
            show_default=True,
            help="Validity of the OCSP answers in it.",
        ),
    )


def with_devices(devices: DeviceChoice, nonce: bytes | None, cpu: Callable[[bytes], tuple[EvidenceItem, ...]]) -> bytes:
    """Return the envelope of a machine with devices; the CPU comes last, and commits to them by a binding.

    Raises:
        UsageError: a nonce that is not 32 bytes.
    """
    from attest_simulator.cli.nvidia_devices import machine_evidence

    return machine_evidence(devices, nonce, cpu).to_json()


def write_endorsements(devices: DeviceChoice, *, at: datetime, force: bool) -> None:
    """Write NVIDIA's endorsements of the devices, if there is a file for them.

    Raises:
        UsageError: a file without devices.
    """
    if devices.endorsements_out is None:
        return
    if not devices.any:
        raise click.UsageError("--device-endorsements-out: there is no device; add --gpus")
    from attest.cli.files import write_output
    from attest_simulator.cli.nvidia_devices import board_of, device_bundle

    bundle = device_bundle(board_of(devices), at=at, days=devices.days)
    write_output(devices.endorsements_out, bundle, force=force)


@click.command(
    cls=ExampleCommand,
    short_help="Make evidence of simulated NVIDIA GPUs and NVSwitches.",
    examples=(
        "attest simulate gpu -o gpu.json --device-endorsements-out nvidia.endorsements",
        "attest simulate gpu --architecture blackwell --driver 580.95.05 -o gpu.json",
        "attest simulate gpu --gpus 8 --switches 4 -o board.json --device-endorsements-out nvidia.endorsements",
    ),
)
@device_options(gpus=1)
@click.option("--nonce", type=hex_of(NONCE_BYTES), metavar="HEX", help="The verifier's challenge, 32 bytes.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Time of the endorsements. Default: now.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Output file; '-' is standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
def gpu(*, devices: DeviceChoice, nonce: bytes | None, moment: datetime | None, output: str, force: bool) -> int:
    """Make evidence of simulated devices, as 'attest collect gpu' writes it. The same options give the same bytes."""
    from attest.cli.files import write_output
    from attest.clock import this_second
    from attest_simulator.cli.nvidia_devices import board_of

    if not devices.any:
        raise click.UsageError("--gpus, --switches: expected at least one device")
    shout()
    write_output(output, board_of(devices).evidence_json(nonce or bytes(NONCE_BYTES), settings=True), force=force)
    write_endorsements(devices, at=moment or this_second(), force=force)
    return 0


@click.command(
    cls=ExampleCommand,
    short_help="Serve simulated RIMs and OCSP answers of NVIDIA on the loopback address.",
    examples=(
        "attest simulate nvidia --port 8753",
        "attest verify gpu.json --allow-simulated --rim-url http://127.0.0.1:8753 --ocsp-url http://127.0.0.1:8753",
    ),
)
@click.option("--port", type=click.IntRange(0, 65535), default=8753, show_default=True, help="Port; 0 for any.")
def nvidia(port: int) -> int:
    """Serve RIMs and OCSP answers of today on 127.0.0.1, until interrupted. Prints its address first."""
    from attest_simulator.cli.nvidia_devices import serve_nvidia

    shout()
    return serve_nvidia(port)
