"""Commands run in this process, and evidence for them to look at."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from attest.cli.main import cli
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest, simulated_crl
from tests.samples import AT, binding

WHEN = "2026-06-01T00:00:00Z"
Document = dict[str, Any]  # Any: JSON, as a program reads it
LAB = ("--offline", "--allow-simulated", "--at", WHEN)


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Document:
        found: Document = json.loads(self.out)
        return found

    def check(self, check_id: str) -> Document:
        return next(check for check in self.document["checks"] if check["id"] == check_id)


Attest = Callable[..., Ran]


@pytest.fixture
def attest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Attest:
    """Run `attest` with these arguments, in an empty directory; standard input is `stdin`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None) -> Ran:
        found = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, env=env)
        assert "Traceback" not in found.output
        return Ran(code=found.exit_code, out=found.stdout, err=found.stderr)

    return run


@dataclass(frozen=True)
class Files:
    """Evidence of one simulated guest in several forms, all over the nonce `question`, current at `WHEN`."""

    folder: Path
    guest: SimulatedGuest

    NONCE = "question"
    REPORT_DATA = b"question".ljust(64, b"\0")

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    @property
    def crl(self) -> bytes:
        return simulated_crl(self.guest.chip.product, at=AT)

    @property
    def extended(self) -> Path:
        return self.write("extended.bin", self.guest.extended_report(self.REPORT_DATA, crl=self.crl))

    @property
    def report(self) -> Path:
        return self.write("report.bin", self.guest.report(self.REPORT_DATA))

    @property
    def without_crl(self) -> Path:
        return self.write("without-crl.bin", self.guest.extended_report(self.REPORT_DATA))

    @property
    def flipped(self) -> Path:
        data = bytearray(self.guest.extended_report(self.REPORT_DATA, crl=self.crl))
        data[0x90] ^= 1
        return self.write("flipped.bin", bytes(data))

    @property
    def bound(self) -> Path:
        wanted = binding()
        evidence = Evidence(
            items=(
                EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=self.guest.report(wanted.report_data())),
                EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=wanted.to_bytes()),
            )
        )
        return self.write("bound.json", evidence.to_json())

    @property
    def endorsements(self) -> Path:
        folder = self.folder / "endorsements"
        (folder / "below").mkdir(parents=True, exist_ok=True)
        for name, der in zip(("leaf", "intermediate", "root"), self.guest.chip.certificates(), strict=True):
            (folder / f"{name}.der").write_bytes(der)
        (folder / "below" / "crl.der").write_bytes(self.crl)
        (folder / "README").write_text("nothing that belongs")
        return folder

    def policy(self, *, name: str = "unit", measurement: bytes | None = None, more: str = "") -> Path:
        values = (measurement or self.guest.measurement).hex()
        text = f"""
schema: attest.policy/1
name: {name}
version: 3
simulated: {{unchecked: "a test on the simulator"}}
reference_values:
  good: {{origin: "the simulator", values: ["{values}"]}}
{more}
snp:
  products: [Genoa]
  measurement: [good]
  minimum_tcb:
    Genoa: {{bootloader: 9, tee: 0, snp: 26, microcode: 80}}
"""
        return self.write(f"{name}.yaml", text.encode())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(folder=tmp_path, guest=SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA)))
