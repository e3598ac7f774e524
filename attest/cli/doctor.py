"""``attest doctor``: the readiness of this machine to attest, and remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.cli.documents import print_document
from attest.cli.firmware_options import FirmwareOptions, firmware_options
from attest.cli.machine import TCTI, TIMEOUT, machine_of
from attest.cli.options import Network, VerificationOptions, network_options
from attest.cli.reference_options import NO_REFERENCES, References, references_options
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from attest.collect.detect import Detected
    from attest.collect.findings import DoctorFinding
    from attest.encoding import JsonValue
    from attest.errors import ConfigurationError

DOCTOR_SCHEMA = "attest.doctor/1"
EXIT_MISSING = 6
CONNECT_SECONDS = 5.0


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest doctor",
        "attest doctor --online                              # can the vendors' services be reached?",
        "attest doctor --policy production.yaml --online     # would this machine be affirmed?",
        "attest doctor --json",
    ),
)
@click.option(
    "--policy",
    "policies",
    metavar="FILE",
    multiple=True,
    help="Also collect evidence, and appraise it here by this policy. Repeatable.",
)
@references_options
@firmware_options
@click.option(
    "--online", is_flag=True, help="Also check that the vendors' services answer, and fetch missing endorsements."
)
@click.option(
    "--endorsements",
    metavar="PATH",
    multiple=True,
    help="For --policy: file or directory with certificates, CRLs, Intel's collateral or bundles. Repeatable.",
)
@click.option("--allow-simulated", is_flag=True, help="For --policy: also accept the simulator's roots.")
@TIMEOUT
@TCTI
@network_options
@display_options
def doctor(
    *,
    policies: tuple[str, ...],
    references: References,
    firmware: FirmwareOptions,
    online: bool,
    endorsements: tuple[str, ...],
    allow_simulated: bool,
    timeout: float,
    tcti: str | None,
    network: Network,
    display: Display,
) -> int:
    """Check the prerequisites of attestation on this machine: TEE, kernel, permissions, GPUs, clock, cache.

    Firmware older than the fix of a bulletin is a warning: of the GPUs' driver always, of the rest with --policy.
    No request leaves the machine's host without --online, and no evidence is collected without --policy. Each problem
    comes with a remedy. Exit codes: 0 nothing is missing, 2 usage, 6 something is missing.
    """
    from attest.cli.firmware_options import read_firmware_table
    from attest.clock import this_second
    from attest.collect.doctor import examine

    if not policies and (endorsements or allow_simulated or references != NO_REFERENCES):
        raise click.UsageError("--endorsements, --allow-simulated, --references…: only with --policy")
    table = read_firmware_table(firmware)
    access = machine_of(tcti)
    at = this_second()
    detected = access.detect()
    findings = list(examine(access, at=at, cache=_cache(network), timeout=timeout, firmware=table))
    if online:
        findings += _reach_services(detected, network)
    if policies:
        from attest.cli.doctor_policy import judge_machine

        question = VerificationOptions(
            inputs=(),
            endorsements=endorsements,
            allow_simulated=allow_simulated,
            offline=not online,
            network=network,
            display=display,
        )
        judged = judge_machine(
            access, question, policies=policies, references=references, firmware=table, at=at, timeout=timeout
        )
        findings += judged
    if display.json:
        print_document(_document(findings, detected))
    elif not display.quiet:
        _print(findings, display)
    return EXIT_MISSING if any(one.outcome == "fail" for one in findings) else 0


def _cache(network: Network) -> Path | ConfigurationError:
    """Return the directory of fetched endorsements, or the reason why there is none."""
    import os
    from pathlib import Path

    from attest.errors import ConfigurationError
    from attest.fetch import default_cache_directory

    if network.cache is not None:
        return Path(network.cache)
    try:
        return default_cache_directory(os.environ)
    except ConfigurationError as exc:
        return exc


def _reach_services(detected: Detected, network: Network) -> Iterator[DoctorFinding]:
    """Ask each service; on a machine without TEE and GPUs all of them, since it may verify other machines' evidence.

    Any answer counts, a refusal too: most services do not have the requested object.
    """
    from attest.fetch import KDS_URL, OCSP_URL, PCS_URL, RIM_URL

    cpu_unknown = detected.tee is None
    services = (
        ("service.amd", network.kds or KDS_URL, cpu_unknown or detected.tee == "sev-snp"),
        ("service.intel", network.pcs or PCS_URL, cpu_unknown or detected.tee == "tdx"),
        ("service.nvidia-rim", network.rim_url or RIM_URL, cpu_unknown or detected.gpus),
        ("service.nvidia-ocsp", network.ocsp_url or OCSP_URL, cpu_unknown or detected.gpus),
    )
    for name, url, needed in services:
        if needed:
            yield _reach(name, url)


def _reach(name: str, url: str) -> DoctorFinding:
    import httpx

    from attest.collect.findings import DoctorFinding

    try:
        answer = httpx.head(url, timeout=CONNECT_SECONDS, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as exc:
        return DoctorFinding(
            id=name,
            outcome="fail",
            found=f"{url} cannot be reached: {str(exc) or type(exc).__name__}",
            fix="allow this machine to connect to it, name a mirror, or use a bundle: attest endorsements fetch",
        )
    return DoctorFinding(id=name, outcome="pass", found=f"{url} answers (status {answer.status_code})")


def _document(findings: Sequence[DoctorFinding], detected: Detected) -> dict[str, JsonValue]:
    machine = {"tee": detected.tee, "interface": detected.interface, "hypervisor": detected.hypervisor or None}
    return {
        "schema": DOCTOR_SCHEMA,
        "outcome": "missing" if any(one.outcome == "fail" for one in findings) else "ready",
        **{name: value for name, value in machine.items() if value is not None},
        "findings": [
            {"id": one.id, "outcome": one.outcome, "found": one.found, **({} if one.fix is None else {"fix": one.fix})}
            for one in findings
        ],
    }


def _print(findings: Sequence[DoctorFinding], display: Display) -> None:
    from rich.table import Table

    from attest.terminal.console import plain, sign, text_console

    out = text_console(display)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in findings:
        table.add_row(sign(one.outcome, encoding=out.encoding), plain(one.id), plain(one.found))
        if one.fix is not None and one.outcome in ("fail", "warning"):
            table.add_row("", "", plain(f"fix: {one.fix}", "bold"))
    out.print(table)
    out.print()
    failed = [one.id for one in findings if one.outcome == "fail"]
    summary = f"MISSING  {', '.join(dict.fromkeys(failed))}" if failed else "READY  nothing is missing"
    out.print(plain(summary, "bold red" if failed else "bold green"))
