"""``attest collect``: evidence of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import show_document
from attest.cli.machine import TCTI, TIMEOUT, EvidenceRequest
from attest.cli.option_values import hex_of
from attest.terminal.display import Display, display_options, gathered
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.collect import CollectedGpu, GpuIdentity, GpuState
    from attest.encoding import JsonValue

COLLECTED_SCHEMA = "attest.collected/1"
GPU_STATE_SCHEMA = "attest.gpu-state/1"
STDOUT = "-"
_OUTPUT = click.option(
    "-o", "--output", metavar="FILE", default=STDOUT, help="Output file; '-', the default, is standard output."
)
_FORCE = click.option("--force", is_flag=True, help="Replace an existing FILE.")


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest collect evidence --nonce 00112233... -o evidence.json   # this machine, GPUs and all",
        "attest verify evidence.json --nonce 00112233...                # elsewhere",
        "attest collect gpu --nonce 00112233... -o gpu.json             # only the GPUs",
        "attest collect gpu-state",
    ),
)
def collect() -> None:
    """Collect evidence of this machine, for 'attest verify' on another one. Nothing is verified here."""


@collect.command(
    short_help="Collect reports and certificates of the NVIDIA GPUs.",
    examples=(
        "attest collect gpu --nonce 00112233... -o gpu.json",
        "attest collect gpu > gpu.json                       # with a generated nonce, printed on standard error",
        "attest collect gpu -o gpu.json --json               # what was taken, for programs",
    ),
)
@click.option(
    "--nonce",
    type=hex_of(32),
    metavar="HEX",
    help="The verifier's challenge, 32 bytes. Default: a random one, which proves freshness only here.",
)
@_OUTPUT
@_FORCE
@TIMEOUT
@display_options
def gpu(*, nonce: bytes | None, output: str, force: bool, timeout: float, display: Display) -> int:
    """Collect the attestation report and the certificate chain of every NVIDIA GPU of this machine.

    Writes a JSON array, one object per GPU, as NVIDIA's SDK does, with UUID and modes ("nvml") as the driver states
    them. Without -o that array is all of standard output, also under --json. Exit codes: 0 written, 2 usage, 6 a GPU,
    the driver or its library did not give evidence; nothing is written then.
    """
    import secrets

    from attest.cli.machine import machine_of
    from attest.collect import NONCE_BYTES

    if nonce is None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        _show_nonce(nonce, display)
    collected = machine_of(None).collect_gpus(nonce, timeout=timeout)
    if collected[0].settings.dev_tools_mode:
        display.warn("developer tools mode is on: the host can read the GPU's memory, and no report shows it")
    data = b"[" + b",\n ".join(one.item() for one in collected) + b"]\n"
    _write(data, output, _collected(nonce, output, collected), force=force, display=display)
    return 0


def _write(data: bytes, output: str, document: dict[str, JsonValue], *, force: bool, display: Display) -> None:
    """Write evidence; describe it on standard output, unless that has the evidence."""
    from attest.cli.files import write_text

    write_text(output, data.decode(), force=force)
    if output != STDOUT:
        show_document(document, display=display, tree=document)


def _show_nonce(nonce: bytes, display: Display) -> None:
    if not display.quiet:
        click.echo(f"nonce: {nonce.hex()}", err=True)


def _collected(nonce: bytes, output: str, collected: tuple[CollectedGpu, ...]) -> dict[str, JsonValue]:
    return {
        "schema": COLLECTED_SCHEMA,
        "file": output,
        "nonce": nonce.hex(),
        "driver_version": collected[0].driver_version,
        "gpus": [{**_gpu(one), "report_bytes": len(one.report)} for one in collected],
    }


_EVIDENCE = (
    click.option(
        "--nonce",
        type=hex_of(longest=64),
        metavar="HEX",
        help="The verifier's challenge, 1 to 64 bytes; with GPUs, 32. Default: a random one, which proves freshness "
        "only here.",
    ),
    click.option(
        "--report-data", type=hex_of(64), metavar="HEX", help="All 64 bytes of REPORT_DATA. Without GPUs only."
    ),
    click.option(
        "--challenge",
        metavar="FILE",
        help="A challenge of a key-release service, JSON: the evidence is bound to it, to that service and to --key.",
    ),
    click.option(
        "--key",
        type=hex_of(longest=4096),
        metavar="HEX",
        help="With --challenge: HPKE KEM id (2 bytes) and public key that the answer is sealed to.",
    ),
    click.option(
        "--vmpl",
        type=click.IntRange(0, 3),
        help="SNP: privilege level that the report states. Default: the lowest that the kernel allows.",
    ),
    TCTI,
    click.option("--no-gpus", is_flag=True, help="Leave out NVIDIA GPUs. Default: included if their driver is loaded."),
    click.option("--no-eventlog", is_flag=True, help="Leave out the event log of the boot (TDX, Azure)."),
    _OUTPUT,
    _FORCE,
    TIMEOUT,
    display_options,
)


@collect.command(
    short_help="Collect all evidence of this machine: CPU, event log, GPUs.",
    examples=(
        "attest collect evidence --nonce 00112233... -o evidence.json",
        "attest collect evidence --challenge challenge.json --key 0020ab... -o evidence.json",
        "attest collect evidence > evidence.json             # with a generated nonce, printed on standard error",
        "attest collect evidence --no-gpus --no-eventlog -o evidence.json --json",
    ),
)
@gathered("request", EvidenceRequest, _EVIDENCE)
def evidence(*, request: EvidenceRequest) -> int:
    """Collect all evidence of this machine as one envelope that 'attest verify' reads.

    The machine is a SEV-SNP or TDX guest, or a confidential VM on Azure, whose virtual TPM is used.
    GPU evidence is collected first, then the CPU's report, which commits to it. Usually needs root. Without -o the
    envelope is all of standard output, also under --json. Exit codes: 0 written, 2 usage, 6 this machine gave no
    evidence ('attest doctor' says why); nothing is written then.
    """
    from attest.cli.collection import collect_requested, collected_document
    from attest.cli.machine import machine_of

    display, output = request.display, request.output
    collected, generated = collect_requested(machine_of(request.tcti), request)
    if generated is not None:
        _show_nonce(generated, display)
    for note in collected.notes:
        display.warn(note)
    document = collected_document(collected, output)
    _write(collected.evidence.to_json(), output, document, force=request.force, display=display)
    return 0


@collect.command(
    "gpu-state",
    short_help="Show, or set, the confidential computing state of the NVIDIA GPUs.",
    examples=(
        "attest collect gpu-state",
        "attest collect gpu-state --json",
        "attest collect gpu-state --set-ready                # dry run",
        "attest collect gpu-state --set-ready --yes          # after verification: let the GPUs accept work",
    ),
)
@click.option("--set-ready", is_flag=True, help="Set the driver's ready state: the GPUs accept work. Needs --yes.")
@click.option("--yes", is_flag=True, help="Make the change; without it, a dry run.")
@TIMEOUT
@display_options
def gpu_state(*, set_ready: bool, yes: bool, timeout: float, display: Display) -> int:
    """Show CC mode, developer tools, multi-GPU mode and ready state, as the driver of this machine states them.

    These values are not signed; a remote verifier may rely on them only where the CPU's evidence covers this machine's
    software. --set-ready changes the ready state, which the driver leaves off in CC mode until the GPUs' evidence was
    verified. It is a dry run without --yes. Exit codes: 0 done, 2 usage, 6 the driver gave no answer.
    """
    from attest.cli.machine import machine_of
    from attest.collect import set_gpus_ready

    if yes and not set_ready:
        raise click.UsageError("--yes is for --set-ready")
    done = set_ready and yes
    if done:
        set_gpus_ready(timeout=timeout)
    document = _state(machine_of(None).gpu_state(timeout=timeout))
    if set_ready:
        document["set_ready"] = "done" if done else "dry run: nothing was changed"
    show_document(document, display=display, tree=document)
    if set_ready and not done:
        click.echo("dry run: this would set all GPUs to accept work; add --yes to do it", err=True)
    return 0


def _state(state: GpuState) -> dict[str, JsonValue]:
    settings = state.settings
    return {
        "schema": GPU_STATE_SCHEMA,
        "driver_version": state.driver_version,
        "environment": settings.environment,
        "cc_mode": settings.cc_mode,
        "dev_tools_mode": settings.dev_tools_mode,
        "multi_gpu_mode": settings.multi_gpu_mode,
        "ready": settings.ready,
        "gpus": [{**_gpu(one)} for one in state.gpus],
    }


def _gpu(one: CollectedGpu | GpuIdentity) -> dict[str, JsonValue]:
    return {
        "index": one.index,
        "uuid": one.uuid,
        "architecture": one.architecture,
        "vbios_version": one.vbios_version,
    }
