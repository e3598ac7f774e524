"""Access of a command to the machine: this one, or the one of a test; to its TPM; and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.collect.access import MachineAccess
    from attest.terminal.display import Display

TCTI_VARIABLE = "ATTEST_TCTI"

TCTI = click.option(
    "--tcti",
    envvar=TCTI_VARIABLE,
    metavar="CONF",
    help="Azure: TPM connection, in the syntax of tpm2-tools. Default: device:/dev/tpmrm0, if the machine is "
    f"one of Azure's. Also {TCTI_VARIABLE}.",
)

TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Time limit for each request to NVIDIA's driver.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRequest:
    """The options of ``attest collect evidence``, as given."""

    nonce: bytes | None
    report_data: bytes | None
    challenge: str | None
    key: bytes | None
    vmpl: int | None
    tcti: str | None
    no_gpus: bool
    no_eventlog: bool
    output: str
    force: bool
    timeout: float
    display: Display


def machine_of(tcti: str | None) -> MachineAccess:
    """Return the running command's access to the machine, by a TPM if ``tcti`` names one."""
    from dataclasses import replace

    from attest.collect.access import THIS_MACHINE, MachineAccess

    if tcti == "":
        raise click.BadParameter("expected a TPM connection, such as device:/dev/tpmrm0", param_hint="--tcti")
    access = click.get_current_context().find_object(MachineAccess) or THIS_MACHINE
    return access if tcti is None else replace(access, tcti=tcti)
