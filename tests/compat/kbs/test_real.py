"""The real ``kbs-client``, for those who have it: `make compat-real KBS_CLIENT=PATH`. No registry has the program."""

import base64
import os
import subprocess
from pathlib import Path

import jwt
import pytest

from attest.clock import system_clock
from tests.compat.conftest import Step
from tests.kms.kbs.face import ADMINISTRATOR

pytestmark = pytest.mark.loopback
CLIENT = "kbs-client"
PATH = "default/test/real"
WARNING = """package policy
import rego.v1
trust_claims := {"executables": 2, "hardware": 2, "configuration": 36}
"""


@pytest.fixture
def program() -> str:
    found = os.environ.get("ATTEST_KBS_CLIENT")
    if found is None:
        pytest.skip("no kbs-client: ATTEST_KBS_CLIENT names no program")
    return found


class Real:
    """The program with an administrator's token."""

    def __init__(self, program: str, address: str, folder: Path) -> None:
        self._start = [program, "--url", address]
        self.folder = folder
        claims = {"exp": int(system_clock().timestamp()) + 600, "role": "admin"}
        (folder / "token").write_text(jwt.encode(claims, ADMINISTRATOR, "EdDSA"))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._start, *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=self.folder
        )

    def admin(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("config", "--admin-token-file", str(self.folder / "token"), *arguments)

    def file(self, name: str, content: str) -> str:
        (self.folder / name).write_text(content)
        return str(self.folder / name)


def test_the_real_client_takes_its_steps(program: str, address: str, tmp_path: Path, step: Step) -> None:
    real = Real(program, address, tmp_path)

    def succeeds(what: str, done: subprocess.CompletedProcess[str]) -> str:
        step(CLIENT, what)
        assert done.returncode == 0, (what, done.stdout, done.stderr)
        return done.stdout

    def fails(what: str, done: subprocess.CompletedProcess[str], text: str) -> None:
        step(CLIENT, what)
        assert done.returncode != 0, (what, done.stdout)
        assert text in done.stdout + done.stderr, (what, done.stdout, done.stderr)

    succeeds("attest", real.run("attest"))
    value = real.file("value", "a value")
    succeeds("set-resource", real.admin("set-resource", "--path", PATH, "--resource-file", value))
    succeeds("set-resource-policy --allow-all", real.admin("set-resource-policy", "--allow-all"))
    printed = succeeds("get-resource", real.run("get-resource", "--path", PATH))
    assert base64.b64decode(printed.split()[-1]) == b"a value"
    fails("get-resource, unknown", real.run("get-resource", "--path", "default/test/none"), "KBS resource not found")
    succeeds("set-resource-policy --deny-all", real.admin("set-resource-policy", "--deny-all"))
    fails("get-resource, denied", real.run("get-resource", "--path", PATH), "resource-policy")
    for name, arguments in {
        "launch_digest": ("abcde",),
        "svn": ("1",),
        "major_version": ("1", "--as-integer", "--as-single-value"),
        "minimum_minor_version": ("4", "--as-integer", "--as-single-value"),
    }.items():
        succeeds(f"set-sample-reference-value {name}", real.admin("set-sample-reference-value", name, *arguments))
    assert "abcde" in succeeds("get-reference-value", real.admin("get-reference-value", "launch_digest"))
    succeeds("set-resource-policy --affirming", real.admin("set-resource-policy", "--affirming"))
    succeeds("get-resource, affirming", real.run("get-resource", "--path", PATH))
    policy = real.file("warning.rego", WARNING)
    arguments = ("set-attestation-policy", "--type", "rego", "--id", "default_cpu", "--policy-file", policy)
    succeeds("set-attestation-policy", real.admin(*arguments))
    fails("get-resource, warning", real.run("get-resource", "--path", PATH), "resource-policy")
    bad = real.file("bad.rego", "package policy\nallow { this is not rego\n")
    fails("set-resource-policy, no Rego", real.admin("set-resource-policy", "--policy-file", bad), "line 2")
    succeeds("delete-resource", real.admin("delete-resource", "--path", PATH))
