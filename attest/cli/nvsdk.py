"""``attest nvsdk``: NVIDIA's own Python SDK, kept apart, as a second opinion."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.option_values import hex_of, utc
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleGroup

if TYPE_CHECKING:
    from attest.endorsements.pool import Endorsements
    from attest.evidence.envelope import Evidence
    from attest.evidence.gpu.evidence import ParsedGpuEvidence
    from attest.nvsdk import NvsdkEnvironment

STATUS_SCHEMA = "attest.nvsdk-status/1"
TIMES_SCHEMA = "attest.nvsdk-times/1"
EXITS = {"accepts": 0, "refuses": 4, "undecided": 5}
FOLDER = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="Folder of the environment. Default: ATTEST_NVSDK, or attest/nvsdk in the user's data directory.",
)


@click.group(
    cls=ExampleGroup,
    examples=(
        "attest nvsdk install --yes",
        "attest nvsdk verify gpu.json --endorsements rims/ --nonce 00112233...",
    ),
)
def nvsdk() -> None:
    """Verify GPU evidence with NVIDIA's own Python SDK too. It does not change the result of attest.

    Its packages need old versions of others, so they live in a Python environment of their own. Revocation is not
    asked, and certificates are judged at the moment that you name.
    """


@nvsdk.command(
    short_help="Install the pinned packages in a separate environment.",
    examples=(
        "attest nvsdk install                                # dry run",
        "attest nvsdk install --yes",
        "attest nvsdk install --yes --dir /opt/nvsdk --python /usr/bin/python3.11",
    ),
)
@FOLDER
@click.option("--python", metavar="FILE", help="Interpreter, Python 3.9 to 3.12. Default: the one that runs attest.")
@click.option("--yes", is_flag=True, help="Make the change; without it, a dry run.")
@display_options
def install(*, folder: str | None, python: str | None, yes: bool, display: Display) -> int:
    """Create a Python environment and install NVIDIA's two packages in it, in the versions that attest supports.

    Downloads from the package registry that pip is configured for. A dry run without --yes. Exit codes: 0 done, 2 not.
    """
    import sys

    from attest.nvsdk import install as make
    from attest.nvsdk import install_commands

    where, interpreter = _folder(folder), python or sys.executable
    if yes:
        _show_installed(make(where, environ=os.environ, python=interpreter, say=display.note), display)
        return 0
    commands = [" ".join(command) for command in install_commands(where, python=interpreter)]
    if display.json:
        print_document({"schema": STATUS_SCHEMA, "folder": str(where), "installed": False, "commands": [*commands]})
    elif not display.quiet:
        click.echo("\n".join(commands))
    click.echo("dry run: nothing was changed; add --yes to run these commands", err=True)
    return 0


@nvsdk.command(short_help="Show what is installed, and whether it works.", examples=("attest nvsdk status",))
@FOLDER
@display_options
def status(*, folder: str | None, display: Display) -> int:
    """Import NVIDIA's packages in their environment and show their versions. Exit codes: 0 they work, 2 they do not."""
    _show_installed(_environment(folder), display)
    return 0


def _show_installed(environment: NvsdkEnvironment, display: Display) -> None:
    from attest.nvsdk import sdk_versions

    folder, versions = str(environment.folder), sdk_versions(environment)
    if display.json:
        print_document({"schema": STATUS_SCHEMA, "folder": folder, "installed": True, "versions": {**versions}})
    elif not display.quiet:
        click.echo(f"installed in {folder}")
        for name, version in versions.items():
            click.echo(f"  {name} {version}")


@nvsdk.command(
    short_help="Collect evidence of the GPUs with NVIDIA's collector.",
    examples=("attest nvsdk collect --nonce 00112233... -o gpu.json",),
)
@FOLDER
@click.option("--nonce", type=hex_of(32), metavar="HEX", required=True, help="The verifier's challenge, 32 bytes.")
@click.option("-o", "--output", metavar="FILE", default="-", help="Output file; '-', the default: standard output.")
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@display_options
def collect(*, folder: str | None, nonce: bytes, output: str, force: bool, display: Display) -> int:
    """Collect evidence of this machine's GPUs with NVIDIA's collector instead of ours, in the same form.

    For comparison: 'attest collect gpu' gives more details on failures, and reports the modes. Standard output, or
    FILE, is the evidence whatever --json says. Exit codes: 0 written, 2 usage, 6 no evidence.
    """
    import json

    from attest.cli.files import STDIN, write_text
    from attest.nvsdk import collect_with_sdk

    devices = collect_with_sdk(nonce, environment=_environment(folder))
    write_text(output, json.dumps(devices) + "\n", force=force)
    if output != STDIN:
        display.note(f"{output}: {len(devices)} devices")
    return 0


@nvsdk.command(
    short_help="Verify evidence with NVIDIA's functions.",
    examples=(
        "attest nvsdk verify gpu.json --endorsements rims/ --nonce 00112233...",
        "attest nvsdk verify gpu.json --endorsements rims/ --nonce ... --at 2026-06-01T00:00:00Z --json",
        "attest nvsdk verify gpu.json --endorsements rims/ --nonce ... --bench 100",
    ),
)
@click.argument("inputs", metavar="EVIDENCE...", nargs=-1, required=True)
@FOLDER
@click.option("--endorsements", metavar="PATH", multiple=True, help="File or directory with RIMs. Repeatable.")
@click.option("--nonce", type=hex_of(32), metavar="HEX", help="Nonce that the reports must contain, 32 bytes.")
@click.option("--at", "moment", type=utc, metavar="TIME", help="Moment of appraisal, RFC 3339. Default: now.")
@click.option("--bench", type=click.IntRange(1, 10_000), metavar="N", help="Time N verifications of the first device.")
@display_options
def verify(
    *,
    inputs: tuple[str, ...],
    folder: str | None,
    endorsements: tuple[str, ...],
    nonce: bytes | None,
    moment: datetime | None,
    bench: int | None,
    display: Display,
) -> int:
    """Have NVIDIA's functions look at evidence, step by step, offline.

    Revocation is not checked. Exit codes: 0 every step succeeded, 2 usage, 3 malformed evidence, 4 a step
    failed, 5 an input of a step is missing: a RIM, or the nonce.
    """
    from attest.clock import this_second
    from attest.nvsdk import second_opinion

    environment, at = _environment(folder), moment or this_second()
    evidence, pool = _read(inputs, endorsements, at=at, display=display)
    devices = _devices(evidence)
    if bench is not None:
        return _bench(devices, pool, at=at, nonce=nonce, rounds=bench, environment=environment)
    opinion = second_opinion(
        devices, rims=pool.rims, at=at, nonce=nonce, certificates=pool.certificates, environment=environment
    )
    if display.json:
        print_document(opinion.document())
    elif not display.quiet:
        from attest.terminal.visible_text import visible

        for line in opinion.lines():
            click.echo(visible(line))
    return EXITS[opinion.conclusion]


def _bench(
    devices: list[tuple[str, ParsedGpuEvidence]],
    pool: Endorsements,
    *,
    at: datetime,
    nonce: bytes | None,
    rounds: int,
    environment: NvsdkEnvironment,
) -> int:
    from attest.nvsdk import device_with_rims, time_sdk

    device = device_with_rims(devices[0][1], rims=pool.rims, certificates=pool.certificates)
    answer = time_sdk(device, at=at, nonce=nonce or devices[0][1].report.nonce, rounds=rounds, environment=environment)
    print_document({"schema": TIMES_SCHEMA, "versions": {**answer.versions}, **answer.found})
    return 0


def _read(
    inputs: tuple[str, ...], endorsements: tuple[str, ...], *, at: datetime, display: Display
) -> tuple[Evidence, Endorsements]:
    from attest.cli.endorsement_inputs import read_pool
    from attest.cli.files import read_inputs
    from attest.evidence.input_file import MAX_FILE_BYTES
    from attest.evidence.input_files import read_evidence

    evidence = read_evidence(read_inputs(inputs, limit=MAX_FILE_BYTES)).evidence
    return evidence, evidence.presented.merged(read_pool(endorsements, at=at, display=display))


def _devices(evidence: Evidence) -> list[tuple[str, ParsedGpuEvidence]]:
    """Return NVIDIA's devices, at least one."""
    from attest.cli.second_opinion import nvidia_devices
    from attest.errors import UnsupportedError

    found = nvidia_devices(evidence)
    if not found:
        raise UnsupportedError(
            "it contains no evidence of a GPU or switch",
            code="evidence-unsupported",
            expected="evidence of NVIDIA's devices",
            hint="'attest inspect FILE' shows what it is",
        )
    return found


def _folder(named: str | None) -> Path:
    from attest.nvsdk import installation_folder

    return Path(named) if named else installation_folder(os.environ)


def _environment(named: str | None) -> NvsdkEnvironment:
    from attest.nvsdk import find_environment

    return find_environment(_folder(named))
