"""``attest demo``: the whole path in a few seconds, on simulated hardware."""

from __future__ import annotations

from datetime import datetime

import click

from attest.cli.option_values import TIME
from attest.terminal.lazy_commands import ExampleCommand

__all__ = ["demo"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "attest demo",
        "attest demo report.bin --endorsements ./certs     # begins with evidence of your own",
    ),
)
@click.argument("evidence", metavar="[EVIDENCE]...", nargs=-1)
@click.option("--endorsements", metavar="PATH", multiple=True, help="Certificates and CRLs for EVIDENCE. Repeatable.")
@click.option("--at", "moment", type=TIME, metavar="TIME", help="Moment for which EVIDENCE is verified. Default: now.")
@click.option("--no-colour", "--no-color", is_flag=True, help="No colours. The same as NO_COLOR=1.")
def demo(evidence: tuple[str, ...], endorsements: tuple[str, ...], moment: datetime | None, no_colour: bool) -> int:
    """See it work on SEV-SNP and TDX side by side, and with GPUs: verify evidence, release keys, refuse others.

    Needs no TEE and no network: the machines are SIMULATED, everything else is the real program. A key-release service
    is started on a free port of 127.0.0.1, and stopped again; files go to a temporary directory, which is removed.

    Exit codes: 0 every step came out as it should, 1 one did not, 2 usage.
    """
    from attest.cli.clock import now
    from attest.cli.demo_story import tell
    from attest.terminal.signals import stopped_by_signals

    with stopped_by_signals():
        return tell(evidence, endorsements=endorsements, at=moment or now(), now=now(), colour=not no_colour)
