"""QEMU, OVMF and Linux boot directly and write into a TPM's log what they would extend into a TD's registers.

No TDX hardware is needed: firmware and kernel measure the same bytes, with SHA-384 among the TPM's banks. It takes a
minute, and a kernel: name the folder of an unpacked `linux-image-*` package in ATTEST_BOOT_PACKAGE.
"""

import base64
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attest.measure import KernelHeader, TdxLaunch, TdxMeasurements, tdx_measurements
from attest.measure.acpi_tables import rsdp, table_loader
from tests.measure.made import blank_variables, ovmf

PACKAGE = Path(os.environ.get("ATTEST_BOOT_PACKAGE", "/nonexistent"))
CODE, VARIABLES = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
BUSYBOX = Path("/bin/busybox")
PROGRAMS = {name: shutil.which(name) for name in ("qemu-system-x86_64", "swtpm", "cpio")}
ABSENT = [name for name, path in PROGRAMS.items() if path is None]
ABSENT += [str(path) for path in (CODE, VARIABLES, BUSYBOX) if not path.exists()]
ABSENT += [] if PACKAGE.is_dir() else ["ATTEST_BOOT_PACKAGE"]
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=f"needs {', '.join(ABSENT)}")

MEMORY_MIB = 1024
COMMAND_LINE = "console=ttyS0 quiet no_timer_check"
ACPI_FILES = ("etc/acpi/tables", "etc/acpi/rsdp", "etc/table-loader")
LOG = "/sys/kernel/security/tpm0/binary_bios_measurements"
IMAGE, BOOT_OPTION, TAGGED = 0x80000003, 0x80000002, 0x6
SHA384 = 0x0C

INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /sys /dev
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t securityfs securityfs /sys/kernel/security
/bin/busybox insmod /qemu_fw_cfg.ko
show() {{ echo BEGIN $1; /bin/busybox gzip -c $2 | /bin/busybox base64; echo END $1; }}
show log {LOG}
for file in {" ".join(ACPI_FILES)}; do show $file /sys/firmware/qemu_fw_cfg/by_name/$file/raw; done
/bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Boot:
    """Event types and SHA-384 digests of the log, and the files that QEMU handed to the firmware."""

    events: tuple[tuple[int, bytes], ...]
    files: dict[str, bytes]
    predicted: TdxMeasurements


@pytest.fixture(scope="module")
def initrd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("initrd")
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    shutil.copy(next(PACKAGE.rglob("qemu_fw_cfg.ko")), root / "qemu_fw_cfg.ko")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names.encode(), capture_output=True, check=True
    )
    (folder / "initrd").write_bytes(archive.stdout)
    return folder / "initrd"


def run(folder: Path, initrd: Path, *, tpm: bool) -> str:
    """Boot once, with or without a TPM, and return the guest's output."""
    shutil.copy(VARIABLES, folder / "variables")
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-machine", "q35", "-m", str(MEMORY_MIB)]
    command += ["-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"]
    command += ["-drive", f"if=pflash,format=raw,readonly=on,file={CODE}"]
    command += ["-drive", f"if=pflash,format=raw,file={folder / 'variables'}"]
    command += ["-kernel", str(kernel()), "-initrd", str(initrd), "-append", COMMAND_LINE]
    if not tpm:
        return subprocess.run(command, capture_output=True, timeout=600, check=True).stdout.decode(errors="replace")
    socket = folder / "tpm.sock"
    state = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={folder}", "--ctrl", f"type=unixio,path={socket}"]
    command += ["-chardev", f"socket,id=tpm,path={socket}", "-tpmdev", "emulator,id=tpm0,chardev=tpm"]
    command += ["-device", "tpm-crb,tpmdev=tpm0"]
    with subprocess.Popen([*state, "--terminate"]) as emulator:
        try:
            while not socket.exists():
                assert emulator.poll() is None
            return subprocess.run(command, capture_output=True, timeout=600, check=True).stdout.decode(errors="replace")
        finally:
            emulator.terminate()


def kernel() -> Path:
    return next((PACKAGE / "boot").glob("vmlinuz-*"))


def shown(output: str) -> dict[str, bytes]:
    """Return the files that the guest printed."""
    import gzip

    found = re.findall(r"BEGIN (\S+)\n([A-Za-z0-9+/=\n]*)END \1\n", output.replace("\r", ""))
    return {name: gzip.decompress(base64.b64decode(text)) for name, text in found}


def logged(log: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and SHA-384 digest of each event after the header, which lists algorithms and their sizes."""
    head = log[32 : 32 + struct.unpack_from("<I", log, 28)[0]]
    count = struct.unpack_from("<I", head, 24)[0]
    sizes = dict(struct.unpack_from("<HH", head, 28 + 4 * index) for index in range(count))
    at = 32 + len(head)
    while at < len(log):
        _, kind, number = struct.unpack_from("<III", log, at)
        at += 12
        digests = {}
        for _ in range(number):
            algorithm = struct.unpack_from("<H", log, at)[0]
            digests[algorithm] = log[at + 2 : at + 2 + sizes[algorithm]]
            at += 2 + sizes[algorithm]
        at += 4 + struct.unpack_from("<I", log, at)[0]
        yield kind, digests[SHA384]


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory, initrd: Path) -> Boot:
    folder = tmp_path_factory.mktemp("boot")
    firmware = folder / "ovmf"
    firmware.write_bytes(ovmf(blank_variables()))
    launch = TdxLaunch(
        firmware=firmware,
        memory=MEMORY_MIB << 20,
        kernel=kernel(),
        kernel_header=KernelHeader.PATCHED,  # QEMU patches it for a guest that is not confidential, in every version.
        initrd=initrd,
        cmdline=COMMAND_LINE,
    )
    files = shown(run(folder, initrd, tpm=True))
    return Boot(events=tuple(logged(files["log"])), files=files, predicted=tdx_measurements(launch))


def digests(boot: Boot, kind: int) -> list[bytes]:
    return [digest for found, digest in boot.events if found == kind]


def test_the_firmware_measures_the_predicted_kernel(boot: Boot) -> None:
    assert digests(boot, IMAGE) == [boot.predicted.events["rtmr1"][0].digest]


def test_the_kernel_measures_the_predicted_command_line_and_initial_ram_disk(boot: Boot) -> None:
    assert digests(boot, TAGGED) == [event.digest for event in boot.predicted.events["rtmr2"]]


def test_the_steps_of_the_boot_are_the_predicted_ones(boot: Boot) -> None:
    steps = {event.digest for event in boot.predicted.events["rtmr1"]}
    assert steps <= {digest for _, digest in boot.events}


def test_the_firmware_measures_the_predicted_boot_options(boot: Boot) -> None:
    from attest.measure.boot_events import MeasuredEvent, setup_boot_option

    expected = [MeasuredEvent.of("BootOrder", bytes(2)), MeasuredEvent.of("Boot0000", setup_boot_option())]
    assert digests(boot, BOOT_OPTION) == [event.digest for event in expected]


def test_qemu_hands_over_the_predicted_rsdp_and_loader(tmp_path: Path, initrd: Path) -> None:
    """Without a TPM, whose table needs commands of its own."""
    files = shown(run(tmp_path, initrd, tpm=False))
    tables = files["etc/acpi/tables"]
    assert rsdp(tables) == files["etc/acpi/rsdp"]
    assert table_loader(tables) == files["etc/table-loader"]


def test_the_package_s_variables_are_the_blank_volume() -> None:
    assert VARIABLES.read_bytes() == blank_variables()
