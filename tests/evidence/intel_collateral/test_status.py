"""The convergence table of specs/intel-tdx-sgx.md, section 12, cell by cell."""

import pytest

from attest.evidence.intel.status import COMPONENT_STATUSES, PLATFORM_STATUSES, TcbStatus, converge

# platform status: with a component UpToDate, OutOfDate, Revoked
TABLE = {
    "UpToDate": ("UpToDate", "OutOfDate", "Revoked"),
    "SWHardeningNeeded": ("SWHardeningNeeded", "OutOfDate", "Revoked"),
    "ConfigurationNeeded": ("ConfigurationNeeded", "OutOfDateConfigurationNeeded", "Revoked"),
    "ConfigurationAndSWHardeningNeeded": (
        "ConfigurationAndSWHardeningNeeded",
        "OutOfDateConfigurationNeeded",
        "Revoked",
    ),
    "OutOfDate": ("OutOfDate", "OutOfDate", "Revoked"),
    "OutOfDateConfigurationNeeded": ("OutOfDateConfigurationNeeded", "OutOfDateConfigurationNeeded", "Revoked"),
    "Revoked": ("Revoked", "Revoked", "Revoked"),
    "TDRelaunchAdvised": ("TDRelaunchAdvised", "TDRelaunchAdvised", "Revoked"),
    "TDRelaunchAdvisedConfigurationNeeded": (
        "TDRelaunchAdvisedConfigurationNeeded",
        "TDRelaunchAdvisedConfigurationNeeded",
        "Revoked",
    ),
}


@pytest.mark.parametrize("status", TABLE)
@pytest.mark.parametrize(("column", "component"), [*enumerate(["UpToDate", "OutOfDate", "Revoked"])])
def test_two_statuses_converge_as_the_table_says(status: str, column: int, component: str) -> None:
    assert converge(TcbStatus(status), TcbStatus(component)) == TABLE[status][column]


def test_the_table_is_complete_and_every_status_of_a_level_is_one_of_the_outcome() -> None:
    assert set(TABLE) == {str(status) for status in TcbStatus}
    assert {str(s) for s in PLATFORM_STATUSES} == {str(s) for s in TcbStatus if "Relaunch" not in s}
    assert set(COMPONENT_STATUSES) <= set(PLATFORM_STATUSES)
