"""``attest simulate``: SIMULATED hardware for experiments and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

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
    from attest_simulator.machines import MachineKind

KINDS = ("snp", "tdx", "azure-snp", "azure-tdx")
"""The same as ``attest_simulator.machines.MachineKind``, without importing it; a test compares them."""
_OF_CHIP = ("product", "report_version", "chip", "tcb")
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
        "attest simulate machine --kind tdx --gpus 2 -- python server.py",
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
    short_help="Run a program on a simulated machine.",
    context_settings={"allow_interspersed_args": False},
    examples=(
        "attest simulate machine -- collect evidence -o evidence.json",
        "attest simulate machine --kind azure-tdx --gpus 2 -- python server.py",
        "attest simulate machine --kind tdx -- ls /sys/kernel/config/tsm/report",
        "attest simulate machine --kind azure-snp -- tpm2_nvread -C o 0x01400001 -o hcl-report.bin",
        "attest simulate machine --kind tdx --policy-out policy.json --endorsements-out vendors -- true",
        "attest simulate machine --tcb bootloader=9,tee=0,snp=20,microcode=60 -- key get my-model --out /dev/shm/key",
    ),
)
@click.argument("arguments", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--kind", type=click.Choice(KINDS), default="snp", show_default=True, help="CPU; azure-... is a VM there."
)
@click.option("--gpus", type=click.IntRange(0, 8), default=0, show_default=True, help="Number of its NVIDIA GPUs.")
@chip_options
@click.option(
    "--measurement", type=hex_of(48), metavar="HEX", help="Launch digest, MRTD, or of the paravisor, 48 bytes."
)
@click.option("--policy-out", metavar="FILE", help="Write a policy that this machine meets.")
@click.option("--endorsements-out", metavar="DIR", help="Write the vendors' endorsements of it, for a service.")
def machine(
    *,
    arguments: tuple[str, ...],
    kind: MachineKind,
    gpus: int,
    product: str,
    report_version: int,
    chip: str,
    tcb: dict[str, int] | None,
    measurement: bytes | None,
    policy_out: str | None,
    endorsements_out: str | None,
) -> int:
    """Run COMMAND as it would run on a SIMULATED machine: a command of attest with its arguments, or any program.

    Python programs that collect evidence or get keys by attest need no change, nor do the programs that they start.
    On snp and tdx, a program that asks the kernel gets reports from it (configfs-tsm). On Azure's machines, a program
    that opens the TPM gets the paravisor's report and quotes. With --gpus, a program that loads NVML gets reports of
    the GPUs. A service gives a simulated machine nothing unless it allows simulated
    evidence, and the policy of the key as well. The exit code is the command's own.
    """
    from attest_simulator.cli.machine_command import run_on, write_vendor_files
    from attest_simulator.program_machine import ChipDescription, MachineDescription

    chip_of(product, report_version, chip, tcb, None)
    context = click.get_current_context()
    of_chip = [name for name in _OF_CHIP if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if of_chip and kind != "snp":
        raise click.UsageError(f"--{of_chip[0].replace('_', '-')} describes the chip of a machine of --kind snp")
    described = ChipDescription(product=product, report_version=report_version, name=chip, tcb=tcb)
    description = MachineDescription(
        kind=kind,
        gpus=gpus,
        measurement=None if measurement is None else measurement.hex(),
        chip=described if kind == "snp" else None,
    )
    shout()
    write_vendor_files(description.machine(), policy=policy_out, folder=endorsements_out)
    return run_on(description, arguments)


for _command in (evidence, endorsements, kds, td, collateral, pcs, azure, imds, gpu, nvidia):
    simulate.add_command(_command)
