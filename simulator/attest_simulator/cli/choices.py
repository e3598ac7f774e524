"""What the options of ``attest simulate`` choose: devices, and the host of a VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

__all__ = ["NONCE_BYTES", "DeviceChoice", "HostChoice"]

NONCE_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """Which NVIDIA devices a simulated machine has, as the options say.

    Attributes:
        gpus: how many.
        switches: how many.
        architecture: of the GPUs.
        driver: version.
        board: another name, other devices.
        dev_tools: whether NVML says that developer tools are on.
        endorsements_out: file for what NVIDIA says of them, or None.
        days: how long that may be used.
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
        """Whether there is a device at all."""
        return bool(self.gpus or self.switches)

    def require_usable_with(self, form: str, report_data: bytes | None) -> None:
        """Refuse options of ``evidence`` and ``td`` that contradict a machine with devices.

        Raises:
            UsageError: an output that cannot hold devices, or REPORT_DATA that is not a binding's.
        """
        if form != "envelope":
            raise click.UsageError(
                "--gpus, --switches: evidence of several devices is an envelope; add --form envelope"
            )
        if report_data is not None:
            raise click.UsageError("--report-data: with --gpus or --switches it commits to the binding; give a --nonce")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChoice:
    """Which simulated host a VM has, as the options say.

    Attributes:
        tee: ``snp`` or ``tdx``.
        product: AMD's product line, of an SNP host.
        host: another name, another machine.
        measurement: of the paravisor, 48 bytes; None is the usual one.
        out_of_date: Intel calls the machine's firmware OutOfDate.
    """

    tee: str
    product: str
    host: str
    measurement: bytes | None = None
    out_of_date: bool = False
