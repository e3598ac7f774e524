"""Access of a command to the machine: this one, or the one of a test; and to its TPM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attest.collect.access import MachineAccess

TCTI_VARIABLE = "ATTEST_TCTI"

TCTI = click.option(
    "--tcti",
    envvar=TCTI_VARIABLE,
    metavar="CONF",
    help="Azure: the way to the virtual TPM, as tpm2-tools write it. Default: device:/dev/tpmrm0, where the machine is "
    f"one of Azure's. Also {TCTI_VARIABLE}.",
)


def machine_of(ctx: click.Context, tcti: str | None) -> MachineAccess:
    """Return the access to the machine, by a TPM if ``tcti`` names one; None: as the machine's files tell."""
    from dataclasses import replace

    from attest.collect.access import THIS_MACHINE, MachineAccess

    if tcti == "":
        raise click.BadParameter("expected the way to a TPM, such as device:/dev/tpmrm0", param_hint="--tcti")
    access = ctx.find_object(MachineAccess) or THIS_MACHINE
    return access if tcti is None else replace(access, tcti=tcti)
