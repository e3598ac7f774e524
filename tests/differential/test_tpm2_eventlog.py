"""tpm2-tools and we lead every log to the same registers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from attest.evidence.eventlog.kinds import TCG2_SHA256
from attest.evidence.eventlog.replay import replay
from attest.evidence.eventlog.structure import parse_event_log
from attest_simulator.intel.eventlog import SHA1, SHA256, SHA384, LogEntry
from attest_simulator.tpm_log import extended, startup_locality, typical_tpm_boot, write_tpm_log

TOOL = shutil.which("tpm2_eventlog")
pytestmark = pytest.mark.skipif(TOOL is None, reason="tpm2_eventlog of tpm2-tools is not installed")

GRUB, UKI = typical_tpm_boot(), typical_tpm_boot(loader="stub", secure_boot=False)


def theirs(log: bytes, folder: Path) -> dict[int, bytes]:
    """Ask tpm2_eventlog for the registers of the SHA-256 bank that a log extends."""
    assert TOOL is not None
    file = folder / "log"
    file.write_bytes(log)
    ran = subprocess.run([TOOL, file], capture_output=True, text=True, check=True)
    bank = ran.stdout.partition("\npcrs:\n")[2].partition("  sha256:\n")[2]
    found: dict[int, bytes] = {}
    for line in bank.splitlines():
        number, colon, value = line.partition(":")
        if not colon or not number.strip().isdigit():
            break
        found[int(number)] = bytes.fromhex(value.strip().removeprefix("0x"))
    return found


def ours(log: bytes) -> dict[int, bytes]:
    """Replay the log ourselves."""
    found = replay(parse_event_log(log, kind=TCG2_SHA256))
    return {int(name.removeprefix("PCR")): value for name, value in found.values.items() if found.counts[name]}


@pytest.mark.parametrize("banks", [(SHA256,), (SHA1, SHA256, SHA384), (SHA384, SHA256)])
@pytest.mark.parametrize("boot", [GRUB, UKI])
def test_both_lead_a_log_to_the_same_registers(
    boot: tuple[LogEntry, ...], banks: tuple[int, ...], tmp_path: Path
) -> None:
    log = write_tpm_log(boot, algorithms=banks)
    assert theirs(log, tmp_path) == ours(log)


@pytest.mark.parametrize("locality", [0, 3, 4])
def test_a_locality_concerns_pcr0_alone(locality: int, tmp_path: Path) -> None:
    # tpm2-tools 5.4 extends PCR0 by the zeros beside the event StartupLocality. EV_NO_ACTION extends nothing (TCG PC
    # Client Platform Firmware Profile, EV_NO_ACTION); a release that begins with the locality gives what we give.
    log = write_tpm_log((startup_locality(locality), *GRUB))
    as_old = bytes(32)
    for digest in (bytes(32), *(entry.event.digest_of(SHA256) for entry in GRUB if entry.index == 0)):
        as_old = extended(as_old, digest)
    found, expected = theirs(log, tmp_path), ours(log)
    assert found.pop(0) in (expected.pop(0), as_old)
    assert found == expected
