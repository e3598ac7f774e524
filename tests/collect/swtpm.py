"""A real TPM in software (swtpm) behind the real TSS, provisioned as Azure does, with a thread for the paravisor."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from attest.collect.azure import AK_HANDLE, USER_DATA_INDEX
from attest.collect.tpm import open_tpm
from attest.errors import CollectionError
from tests.collect.azure_vm import MORE, SNP, AzureMachine, FakeServices, Host, azure_root

START_SECONDS = 60.0
LARGEST_INDEX_BYTES = 2048
"""Of an NV index of swtpm."""


def require_tss() -> Any:  # noqa: ANN401  tpm2-pytss has no types
    """Give tpm2-pytss, and see that there is swtpm; skip without them, or fail where ATTEST_REQUIRE_TSS=1."""
    missing = [] if shutil.which("swtpm") else ["swtpm (Debian: swtpm)"]
    os.environ.setdefault("TSS2_LOG", "all+none")
    try:
        pytss = import_module("tpm2_pytss")
    except ImportError as exc:
        missing.append(f"tpm2-pytss (requirements/tpm.txt): {exc}")
    else:
        if not missing:
            return pytss
    words = f"no {' and no '.join(missing)}"
    if os.environ.get("ATTEST_REQUIRE_TSS") == "1":
        pytest.fail(f"ATTEST_REQUIRE_TSS=1, but there is {words}")
    pytest.skip(words)


def _free_ports() -> int:
    """Return a port that is free, as is the next one, which the TSS takes for the control channel."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    pytest.fail("no two ports beside each other are free")


class SwTpm:
    """One TPM; its state outlives its process."""

    def __init__(self, folder: Path) -> None:
        self._pytss = require_tss()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.open = open_tpm
        self.start()
        self.ak = self._make_ak()

    # -- running

    def start(self) -> None:
        """Start it; somebody else may take the ports first, then other ones are tried."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            port = _free_ports()
            self.tcti = f"swtpm:host=127.0.0.1,port={port}"
            if self._runs(port, deadline):
                return
            self.stop()
        pytest.fail(f"swtpm did not start: {(self.folder / 'log').read_text()[-500:]}")

    def _runs(self, port: int, deadline: float) -> bool:
        arguments = [
            *("--tpm2", "--tpmstate", f"dir={self.folder}", "--flags", "not-need-init,startup-clear"),
            *("--server", f"type=tcp,port={port},bindaddr=127.0.0.1"),
            *("--ctrl", f"type=tcp,port={port + 1},bindaddr=127.0.0.1"),
            *("--pid", f"file={self.folder / 'pid'}"),
        ]
        (self.folder / "pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(["swtpm", "socket", *arguments], stdout=log, stderr=log)
        self._process = process
        while process.poll() is None and time.monotonic() < deadline:
            # Its number is written once the ports are its own; before, another TPM may be the one that answers.
            if self._has_written(process.pid):
                try:
                    open_tpm(self.tcti).read_pcrs()
                except CollectionError:
                    pass
                else:
                    return True
            time.sleep(0.01)
        return False

    def _has_written(self, number: int) -> bool:
        try:
            return (self.folder / "pid").read_text().strip() == str(number)
        except FileNotFoundError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    @contextmanager
    def esys(self) -> Iterator[Any]:
        with self._pytss.ESAPI(self.tcti) as esys:
            yield esys

    # -- what Azure does

    def _make_ak(self) -> rsa.RSAPublicKey:
        types = self._pytss
        attributes = "restricted|sign|fixedtpm|fixedparent|sensitivedataorigin|userwithauth"
        template = types.TPM2B_PUBLIC.parse("rsa2048:rsassa-sha256:null", objectAttributes=attributes)
        with self.esys() as esys:
            key, *_ = esys.create_primary(types.TPM2B_SENSITIVE_CREATE(), template, types.ESYS_TR.ENDORSEMENT)
            esys.evict_control(types.ESYS_TR.OWNER, key, AK_HANDLE)
            esys.flush_context(key)
        found = open_tpm(self.tcti).read_key(AK_HANDLE)
        assert found is not None
        return found

    def put(self, index: int, data: bytes | None) -> None:
        types = self._pytss
        attributes = types.TPMA_NV.OWNERREAD | types.TPMA_NV.OWNERWRITE
        with self.esys() as esys:
            area = types.TPMS_NV_PUBLIC(
                nvIndex=index,
                nameAlg=types.TPM2_ALG.SHA256,
                attributes=attributes,
                dataSize=64 if data is None else len(data),
            )
            try:
                handle = esys.tr_from_tpmpublic(index)
            except types.TSS2_Exception:
                handle = esys.nv_define_space(None, types.TPM2B_NV_PUBLIC(area))
            for offset in range(0, len(data or b""), 1024):
                esys.nv_write(handle, (data or b"")[offset : offset + 1024], offset, types.ESYS_TR.OWNER)

    def drop(self, index: int) -> None:
        with self.esys() as esys:
            esys.nv_undefine_space(esys.tr_from_tpmpublic(index))

    def swap_ak(self, *, there: bool) -> None:
        types = self._pytss
        with self.esys() as esys:
            esys.evict_control(types.ESYS_TR.OWNER, esys.tr_from_tpmpublic(AK_HANDLE), AK_HANDLE)
        if there:
            self._make_other()

    def _make_other(self) -> None:
        types = self._pytss
        template = types.TPM2B_PUBLIC.parse(
            "rsa2048:rsassa-sha256:null",
            objectAttributes="sign|userwithauth|fixedtpm|fixedparent|sensitivedataorigin|restricted",
        )
        with self.esys() as esys:
            key, *_ = esys.create_primary(types.TPM2B_SENSITIVE_CREATE(), template, types.ESYS_TR.OWNER)
            esys.evict_control(types.ESYS_TR.OWNER, key, AK_HANDLE)
            esys.flush_context(key)

    def extend(self, index: int, digest: bytes = MORE) -> None:
        types = self._pytss
        value = types.TPMT_HA(hashAlg=types.TPM2_ALG.SHA256, digest=types.TPMU_HA(sha256=digest))
        with self.esys() as esys:
            esys.pcr_extend(types.ESYS_TR(index), types.TPML_DIGEST_VALUES([value]))


@contextmanager
def paravisor(tpm: SwTpm, publish: Callable[[bytes], None]) -> Iterator[None]:
    """Watch the user data, and remake the report whenever it changes."""
    done = threading.Event()
    failures: list[BaseException] = []

    def watch() -> None:
        seen = bytes(64)
        try:
            while not done.wait(0.02):
                found = open_tpm(tpm.tcti).read_nv(USER_DATA_INDEX, limit=64)
                if found is not None and found.data is not None and found.data != seen:
                    seen = found.data
                    publish(seen)
        except BaseException as exc:  # noqa: BLE001  it is raised again where the test sees it
            failures.append(exc)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(10)
    assert failures == []


@contextmanager
def swtpm_vm(folder: Path, host: Host = SNP, *, stuck: bool = False) -> Iterator[tuple[AzureMachine, SwTpm]]:
    """A VM with a TPM of its own process, and a paravisor in a thread; clocks and waiting are real.

    With a paravisor that is stuck, nothing happens by itself, and nobody has to wait.
    """
    tpm = SwTpm(folder / "tpm")
    try:
        vm = AzureMachine(
            machine=azure_root(folder / "root"),
            tpm=tpm,
            services=FakeServices(host=host),
            host=host,
            tcti=tpm.tcti,
            sleep=None if stuck else time.sleep,
            report_bytes=LARGEST_INDEX_BYTES,
        )
        vm.publish()
        if stuck:
            yield vm, tpm
        else:
            with paravisor(tpm, vm.publish):
                yield vm, tpm
    finally:
        tpm.stop()
