"""An environment whose interpreter says what a test wants, and the real one where there is one."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.nvsdk import NvsdkEnvironment, find_environment

Fake = Callable[[str], NvsdkEnvironment]
_ANSWER = """#!{python} -I
import json, os, sys, time
request = json.load(sys.stdin)
def tell(**members):
    versions = {{"python": "3.11", "nv-local-gpu-verifier": "2.7.3"}}
    print(json.dumps({{"versions": versions, **members}}))
{body}
"""


@pytest.fixture
def fake_sdk(tmp_path: Path) -> Fake:
    """Make an environment whose interpreter ignores the worker and runs this body instead."""

    def make(body: str) -> NvsdkEnvironment:
        python = tmp_path / "sdk" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(_ANSWER.format(python=sys.executable, body=body))
        python.chmod(0o755)
        return NvsdkEnvironment(folder=tmp_path / "sdk")

    return make


@pytest.fixture(scope="session")
def real_sdk() -> NvsdkEnvironment:
    """Give NVIDIA's packages; skip without them, or fail where ATTEST_REQUIRE_NVSDK=1 promises them."""
    named = os.environ.get("ATTEST_NVSDK")
    if named:
        return find_environment(Path(named))
    if os.environ.get("ATTEST_REQUIRE_NVSDK") == "1":
        pytest.fail("ATTEST_REQUIRE_NVSDK=1, but ATTEST_NVSDK names no environment with NVIDIA's Python SDK")
    pytest.skip("NVIDIA's Python SDK is not here; 'attest nvsdk install --yes --dir DIR', then ATTEST_NVSDK=DIR")
