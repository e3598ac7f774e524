"""A real PKCS#11 token in software: Debian's SoftHSM2, with its tokens in a folder of the test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PIN = "4711-of-this-test"
MODULES = tuple(map(Path, ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")))


def find_module() -> Path | None:
    return next((path for path in MODULES if path.exists()), None)


def missing() -> str | None:
    """Say what is missing for these tests, or None."""
    try:
        import pkcs11  # noqa: F401
    except ImportError:
        return "python-pkcs11 is not installed (extra `pkcs11`)"
    if find_module() is None or shutil.which("softhsm2-util") is None:
        return "there is no SoftHSM2 (Debian: apt-get install softhsm2)"
    return None


def require_softhsm() -> None:
    """Skip where there is no SoftHSM2, or fail where ATTEST_REQUIRE_SOFTHSM=1 promises one."""
    reason = missing()
    if reason is None:
        return
    if os.environ.get("ATTEST_REQUIRE_SOFTHSM") == "1":
        pytest.fail(f"ATTEST_REQUIRE_SOFTHSM=1, and {reason}")
    pytest.skip(reason)


class SoftHsm:
    """One folder of tokens. The library reads where it is from the environment whenever it starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        require_softhsm()
        self.folder = folder / "hsm"
        self.tokens = self.folder / "tokens"
        self.tokens.mkdir(parents=True)
        conf = self.folder / "softhsm2.conf"
        conf.write_text(f"directories.tokendir = {self.tokens}\nobjectstore.backend = file\nlog.level = ERROR\n")
        monkeypatch.setenv("SOFTHSM2_CONF", str(conf))
        self.pin_file = self.folder / "pin"
        self.write_pin(PIN)
        self.make_token("kms")

    def write_pin(self, pin: str) -> None:
        self.pin_file.write_text(f"{pin}\n", encoding="ascii")
        self.pin_file.chmod(0o600)

    def make_token(self, label: str) -> None:
        command = ("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", "87654321")
        subprocess.run(command, check=True, capture_output=True)

    def settings(self, key: str = "kek", *, token: str = "kms") -> dict[str, object]:  # noqa: S107  a label
        """The members of ``[kek]``."""
        module = find_module()
        return {"backend": "pkcs11", "module": module, "token": token, "key": key, "pin_file": self.pin_file}

    def go_away(self) -> None:
        self.tokens.rename(self.folder / "away")
        self.tokens.mkdir()

    def come_back(self) -> None:
        shutil.rmtree(self.tokens)
        (self.folder / "away").rename(self.tokens)
