"""TCB statuses in Intel's spelling, and how several become one."""

from __future__ import annotations

import enum


class TcbStatus(enum.StrEnum):
    """Status of a verification, or of one level: ``PLATFORM_STATUSES`` or ``COMPONENT_STATUSES``."""

    UP_TO_DATE = "UpToDate"
    SW_HARDENING_NEEDED = "SWHardeningNeeded"
    CONFIGURATION_NEEDED = "ConfigurationNeeded"
    CONFIGURATION_AND_SW_HARDENING_NEEDED = "ConfigurationAndSWHardeningNeeded"
    OUT_OF_DATE = "OutOfDate"
    OUT_OF_DATE_CONFIGURATION_NEEDED = "OutOfDateConfigurationNeeded"
    TD_RELAUNCH_ADVISED = "TDRelaunchAdvised"
    TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED = "TDRelaunchAdvisedConfigurationNeeded"
    REVOKED = "Revoked"


PLATFORM_STATUSES = (
    TcbStatus.UP_TO_DATE,
    TcbStatus.SW_HARDENING_NEEDED,
    TcbStatus.CONFIGURATION_NEEDED,
    TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED,
    TcbStatus.OUT_OF_DATE,
    TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TcbStatus.REVOKED,
)
"""Statuses of a platform's TCB level (specs/intel-tdx-sgx.md, section 9)."""
COMPONENT_STATUSES = (TcbStatus.UP_TO_DATE, TcbStatus.OUT_OF_DATE, TcbStatus.REVOKED)
"""Statuses of a level of the TDX module or of the quoting enclave."""

# The one column of the table in which a status changes; UpToDate keeps it, Revoked replaces it.
_WITH_OUT_OF_DATE = {
    TcbStatus.UP_TO_DATE: TcbStatus.OUT_OF_DATE,
    TcbStatus.SW_HARDENING_NEEDED: TcbStatus.OUT_OF_DATE,
    TcbStatus.CONFIGURATION_NEEDED: TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED: TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
}


def converge(status: TcbStatus, component: TcbStatus) -> TcbStatus:
    """Lower the status of a platform by that of a component: the TDX module, then the quoting enclave.

    Spec: specs/intel-tdx-sgx.md, section 12.
    """
    if component is TcbStatus.REVOKED:
        return TcbStatus.REVOKED
    if component is TcbStatus.OUT_OF_DATE:
        return _WITH_OUT_OF_DATE.get(status, status)
    return status
