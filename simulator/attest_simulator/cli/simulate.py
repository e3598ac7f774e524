"""``attest simulate``: SIMULATED hardware for experiments and tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import hex_of
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup
from attest_simulator.cli.amd import chip_of, chip_options, endorsements, evidence, kds
from attest_simulator.cli.azure import azure, imds
from attest_simulator.cli.intel import collateral, pcs, td
from attest_simulator.cli.nvidia import gpu, nvidia
from attest_simulator.cli.warning import shout

if TYPE_CHECKING:
    from attest.encoding import JsonValue

ANCHORS_SCHEMA = "attest.simulated-anchors/1"


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
    short_help="Show the simulator's roots.", examples=("attest simulate anchors", "attest simulate anchors --json")
)
@display_options
def anchors(display: Display) -> int:
    """Show the simulator's roots. They are accepted with --allow-simulated alone; an anchor file refuses them."""
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
@chip_options
@click.option("--measurement", type=hex_of(48), metavar="HEX", help="Launch digest, 48 bytes.")
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
    from attest.cli.main import cli
    from attest_simulator import SimulatedGuest
    from attest_simulator.cli.guest_machine import simulated_machine

    guest = SimulatedGuest(chip=chip_of(product, report_version, chip, tcb, None))
    named = arguments[0] == "attest" and len(arguments) > 1  # prefixed to a whole command line
    shout()
    with simulated_machine(replace(guest, measurement=measurement or guest.measurement)) as access:
        return int(cli.main(list(arguments[named:]), standalone_mode=False, obj=access))


for _command in (evidence, endorsements, kds, td, collateral, pcs, azure, imds, gpu, nvidia):
    simulate.add_command(_command)
