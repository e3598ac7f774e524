"""Recorded boots: each measured event whose digest follows from what is recorded is computed again.

Not shown, because no record holds it: MRTD (no firmware), the kernel's digest (no kernel), command line and initial RAM
disk of RTMR2 (no image of dstack; of Tinfoil's RAM disk only SHA-256), the digest of the ACPI tables themselves (no
record has AML), and the TD HOB of ``live1``, ``live2`` and ``alibaba-aael`` (neither firmware nor memory size).
"""

import json
import struct
from dataclasses import dataclass
from hashlib import sha384
from pathlib import Path
from typing import Any

import pytest

from attest.measure.acpi_tables import rsdp, table_loader
from attest.measure.boot_events import (
    AcpiFiles,
    MeasuredEvent,
    SecureBoot,
    extended,
    rtmr0_events,
    rtmr1_events,
    rtmr2_events,
    setup_boot_option,
)
from attest.measure.configuration_volume import holds_no_variables
from attest.measure.td_hob import td_hob
from attest.measure.tdvf import parse_tdvf
from tests.measure.made import acpi_tables, blank_variables, ovmf

GIB = 1 << 30
UNKNOWN_ACPI = AcpiFiles(loader=b"", rsdp=b"", tables=b"")


@dataclass(frozen=True)
class Boot:
    """A recorded boot of dstack.

    Attributes:
        log: register and digest of each event.
        apic: length of the machine's APIC table; ``rsdt``: offset of its RSDT. Both are found by search, as AML is not
            recorded: one pair of them gives both recorded digests, and the length is that of the recorded number of
            processors.
    """

    log: tuple[tuple[int, bytes], ...]
    registers: dict[str, bytes]
    memory: int
    apic: int
    rsdt: int


def apic_length(processors: int, overrides: int = 5) -> int:
    """Return the length of QEMU's APIC table: header, processors, I/O APIC, interrupt overrides, NMI."""
    return 44 + 8 * processors + 12 + 10 * overrides + 6


def document(vectors: Path, name: str) -> Any:  # noqa: ANN401  JSON of another project
    return json.loads((vectors / "providers" / name).read_text())


def entries(log: str | list[dict[str, Any]]) -> tuple[tuple[int, bytes], ...]:
    rows = json.loads(log) if isinstance(log, str) else log
    return tuple((row["imr"], bytes.fromhex(row["digest"])) for row in rows)


def quoted(quote: str) -> dict[str, bytes]:
    """Return RTMR0 to RTMR2 of a quote of version 4."""
    body = bytes.fromhex(quote)[48:]
    return {f"rtmr{index}": body[328 + 48 * index : 376 + 48 * index] for index in range(3)}


SHAPES = {64: (apic_length(64), 0x38FE), 24: (apic_length(24), 0x2902), 4: (apic_length(4, 16), 0x239F)}
"""Length of the APIC table and offset of the RSDT by number of processors."""

BOOTS = (
    "near-direct/getquote.json",
    "near-direct/report.json",
    "near-direct/report.json compose_manager_attestation",
    "near-cloud/report.json gateway_attestation",
    "near-cloud/report.json model_attestations 0",
    "near-cloud/report.json model_attestations 0 compose_manager_attestation",
    "nanogpt/report.json",
    "venice/report.json",
    "venice/report.json compose_manager_attestation",
)


def boot_of(vectors: Path, place: str) -> Boot:
    """Read a machine: a file and the members that lead to it."""
    name, *path = place.split()
    machine = document(vectors, name)
    for step in path:
        machine = machine[int(step)] if step.isdigit() else machine[step]
    config = json.loads(machine.get("vm_config") or machine["info"]["vm_config"])
    apic, rsdt = SHAPES[config["cpu_count"]]
    return Boot(
        log=entries(machine["event_log"]),
        registers=quoted(machine.get("intel_quote") or machine["quote"]),
        memory=config["memory_size"],
        apic=apic,
        rsdt=rsdt,
    )


@pytest.fixture(params=BOOTS)
def boot(vectors_dir: Path, request: pytest.FixtureRequest) -> Boot:
    return boot_of(vectors_dir, request.param)


def digests(boot: Boot, register: int) -> list[bytes]:
    return [digest for index, digest in boot.log if index == register]


def tables_of(boot: Boot) -> bytes:
    """Return tables of the lengths that this machine's have; their contents are not recorded."""
    dsdt = boot.rsdt - 64 - 244 - boot.apic - 60 - 40
    return acpi_tables(("APIC", boot.apic), ("MCFG", 60), ("WAET", 40), dsdt=dsdt)


def predicted_rtmr0(boot: Boot) -> tuple[MeasuredEvent, ...]:
    volume, tables = blank_variables(), tables_of(boot)
    return rtmr0_events(
        td_hob=td_hob(parse_tdvf(ovmf(volume), name="ovmf"), boot.memory),
        configuration_volume=volume,
        secure_boot=SecureBoot.ABSENT,
        acpi=AcpiFiles(loader=table_loader(tables), rsdp=rsdp(tables), tables=tables),
    )


def test_every_event_of_rtmr0_but_the_acpi_tables_is_computed_again(boot: Boot) -> None:
    recorded = digests(boot, 0)
    predicted = predicted_rtmr0(boot)
    assert len(recorded) == len(predicted) == 13
    different = [event.name for event, digest in zip(predicted, recorded, strict=True) if event.digest != digest]
    assert different == ["ACPI tables"]


def test_rtmr0_follows_from_the_predicted_events_and_the_recorded_digest_of_the_acpi_tables(boot: Boot) -> None:
    events = [
        MeasuredEvent(name=event.name, digest=recorded) if event.name == "ACPI tables" else event
        for event, recorded in zip(predicted_rtmr0(boot), digests(boot, 0), strict=True)
    ]
    assert extended(events) == boot.registers["rtmr0"]


def test_rtmr1_follows_from_the_recorded_digest_of_the_kernel(boot: Boot) -> None:
    recorded = digests(boot, 1)
    events = rtmr1_events(recorded[0])
    assert [event.digest for event in events] == recorded
    assert extended(events) == boot.registers["rtmr1"]


def test_rtmr2_is_command_line_and_initial_ram_disk(boot: Boot) -> None:
    """Neither is recorded: two events, in this order of the register, of which the second is the disk's digest."""
    command_line, initrd = digests(boot, 2)
    events = rtmr2_events(cmdline="not recorded", initrd_digest=initrd)
    assert [event.digest == digest for event, digest in zip(events, (command_line, initrd), strict=True)] == [
        False,
        True,
    ]
    recorded = (MeasuredEvent(name="command line", digest=command_line), events[1])
    assert extended(recorded) == boot.registers["rtmr2"]


# -- logs of other machines


def ccel(vectors: Path, name: str) -> list[tuple[int, int, bytes, bytes]]:
    """Read a CCEL log: register, type, SHA-384 digest and data of each event after the header."""
    data = (vectors / "ccel" / name / "ccel.bin").read_bytes()
    at = 32 + struct.unpack_from("<I", data, 28)[0]
    found = []
    while data[at : at + 4] not in (b"\xff\xff\xff\xff", b"\0\0\0\0", b""):
        register, kind, count, algorithm = struct.unpack_from("<IIIH", data, at)
        assert (count, algorithm) == (1, 0x0C)
        digest = data[at + 14 : at + 62]
        size = struct.unpack_from("<I", data, at + 62)[0]
        found.append((register - 1, kind, digest, data[at + 66 : at + 66 + size]))
        at += 66 + size
    return found


@pytest.mark.parametrize("name", ["live1", "live2"])
def test_a_directly_booted_kernel_of_another_host_measures_the_same_events(vectors_dir: Path, name: str) -> None:
    """One processor, with HPET. Its TD HOB is not explained by the sections of any known firmware."""
    log = ccel(vectors_dir, name)
    sizes = (("APIC", apic_length(1)), ("HPET", 56), ("MCFG", 60), ("WAET", 40))
    dsdt = 0x22E0 - 64 - 244 - sum(length for _, length in sizes)
    tables = acpi_tables(*sizes, dsdt=dsdt)
    predicted = rtmr0_events(
        td_hob=b"",
        configuration_volume=blank_variables(),
        secure_boot=SecureBoot.ABSENT,
        acpi=AcpiFiles(loader=table_loader(tables), rsdp=rsdp(tables), tables=tables),
    )
    recorded = [digest for register, _, digest, _ in log if register == 0]
    different = [event.name for event, digest in zip(predicted, recorded, strict=True) if event.digest != digest]
    assert different == ["TD HOB", "ACPI tables"]
    boot = [digest for register, _, digest, _ in log if register == 1]
    assert [event.digest for event in rtmr1_events(boot[0])] == boot
    assert len([digest for register, _, digest, _ in log if register == 2]) == 2


def test_the_boot_option_is_the_recorded_one(vectors_dir: Path) -> None:
    recorded = [data for _, kind, _, data in ccel(vectors_dir, "live1") if kind == 0x80000002]
    assert recorded[1].endswith(setup_boot_option())
    assert len(setup_boot_option()) == struct.unpack_from("<Q", recorded[1], 24)[0]


def test_ten_gibibytes_explain_the_memory_of_the_log_of_a_boot_loader(vectors_dir: Path) -> None:
    """The size itself is not recorded: of all whole GiB up to 2 TiB, exactly one gives the recorded digest."""
    recorded = ccel(vectors_dir, "grub")[0][2]
    tdvf = parse_tdvf(ovmf(blank_variables()), name="ovmf")
    sizes = [size for size in range(1, 2049) if sha384(td_hob(tdvf, size * GIB)).digest() == recorded]
    assert sizes == [10]


def test_firmware_with_secure_boot_and_no_keys_measures_the_variable_as_off(vectors_dir: Path) -> None:
    predicted = rtmr0_events(td_hob=b"", configuration_volume=b"", secure_boot=SecureBoot.OFF, acpi=UNKNOWN_ACPI)
    recorded = [digest for _, kind, digest, _ in ccel(vectors_dir, "alibaba-aael") if kind == 0x80000001]
    assert [event.digest for event in predicted if event.name.startswith("variable ")] == recorded


def test_the_configuration_volume_of_every_direct_boot_is_the_blank_one(vectors_dir: Path) -> None:
    volume = blank_variables()
    assert holds_no_variables(volume)
    recorded = {digests(boot_of(vectors_dir, place), 0)[1] for place in BOOTS}
    recorded |= {ccel(vectors_dir, name)[1][2] for name in ("live1", "live2")}
    assert recorded == {sha384(volume).digest()}
