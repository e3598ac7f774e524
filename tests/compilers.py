"""The C compiler, with which the driver library of simulated GPUs is built."""

import os
import shutil

import pytest


def require_compiler() -> None:
    """Skip without a C compiler, or fail where ATTEST_REQUIRE_CC=1 promises one."""
    if shutil.which("cc") is not None:
        return
    if os.environ.get("ATTEST_REQUIRE_CC") == "1":
        pytest.fail("ATTEST_REQUIRE_CC=1, but there is no C compiler (cc)")
    pytest.skip("no C compiler (cc) for the simulated driver library; Debian: gcc and libc6-dev")
