"""Values of options of ``attest simulate``: devices, and the host of a VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

NONCE_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """NVIDIA devices of a simulated machine.

    Attributes:
        gpus: number of GPUs.
        switches: number of switches.
        architecture: of the GPUs.
        driver: version.
        board: name that determines the devices.
        dev_tools: NVML reports developer tools.
        endorsements_out: file for NVIDIA's endorsements, or None.
        days: validity of that file.
    """

    gpus: int
    switches: int
    architecture: Literal["hopper", "blackwell"]
    driver: str
    board: str
    dev_tools: bool
    endorsements_out: str | None
    days: int

    @property
    def any(self) -> bool:
        """True if there is a device."""
        return bool(self.gpus or self.switches)

    def require_usable_with(self, form: str, report_data: bytes | None) -> None:
        """Refuse options of ``evidence`` and ``td`` that conflict with devices.

        Raises:
            UsageError: an output without room for devices, or REPORT_DATA of another form than a binding's.
        """
        if form != "envelope":
            raise click.UsageError(
                "--gpus, --switches: evidence of several devices is an envelope; add --form envelope"
            )
        if report_data is not None:
            raise click.UsageError("--report-data: with --gpus or --switches it commits to the binding; give a --nonce")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChoice:
    """Simulated host of a VM.

    Attributes:
        tee: ``snp`` or ``tdx``.
        product: AMD's product line, of an SNP host.
        host: name that determines the machine.
        measurement: of the paravisor, 48 bytes; None is the default.
        out_of_date: Intel's status of the firmware is OutOfDate.
    """

    tee: str
    product: str
    host: str
    measurement: bytes | None = None
    out_of_date: bool = False
