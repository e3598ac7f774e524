"""`attest demo`: it ends well, it tidies up, and it says so when something comes out otherwise."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LABELS = ("SEV-SNP", "TDX")
RUN = "from attest.cli.main import main; raise SystemExit(main())"


def environment(folder: Path) -> dict[str, str]:
    """Temporary files go below `folder`, so that what is left behind shows."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "HOME": "/nonexistent",
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
    }


def demo(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "demo", *map(str, arguments)],
        capture_output=True,
        env=environment(folder),
        timeout=60,
        check=False,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def told_of_ones_own(folder: Path, *arguments: object) -> str:
    """What it tells of given evidence before its own story begins, where it is ended: the story is told elsewhere."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=environment(folder),
        text=True,
    )
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("2. "):
                break
            lines.append(line)
        process.terminate()
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    return "".join(lines)


@dataclass(frozen=True)
class Shown:
    """One run of the demo, without arguments."""

    folder: Path
    ran: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("demo")
    return Shown(folder=folder, ran=demo(folder))


@pytest.mark.loopback
def test_every_step_comes_out_as_it_should(shown: Shown) -> None:
    ran = shown.ran
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for told in (
        "SIMULATED",
        "VERIFIED",
        "snp-signature-invalid",
        "quote-signature-invalid",
        "eventlog-register-mismatch",
        "one policy for both machines",
        "RELEASED",
        "These are the weights",
        "policy.snp.measurement",
        "policy.snp.minimum_tcb",
        "policy.tdx.mr_td",
        "policy.tdx.tcb_status",
        "challenge-used",
        "the CPU's report commits to them: RELEASED",
        "binding-devices-mismatch",
        "gpu-device-repeated",
        "device-nonce-mismatch",
        "Everything came out as it should",
    ):
        assert told in ran.stdout
    assert "✗" not in ran.stdout
    assert list(shown.folder.iterdir()) == []
    assert processes_of(shown.folder) == []


@pytest.mark.loopback
def test_both_machines_go_through_the_same_story(shown: Shown) -> None:
    lines = shown.ran.stdout.splitlines()
    told = {
        label: [line.removeprefix(f"   {label}").strip() for line in lines if label in line[:11]] for label in LABELS
    }
    outcomes = {
        label: [line.split(": REFUSED, policy-not-met")[0] for line in found if line.startswith("✓")]
        for label, found in told.items()
    }
    snp, tdx = (outcomes[label] for label in LABELS)
    # What a machine presents and how its own checks are called may differ; the story does not.
    assert len(tdx) == len(snp) + 1  # the event log, which SEV-SNP has not
    assert snp[-3:] == tdx[-3:]
    assert [line for line in snp if "RELEASED" in line] == [line for line in tdx if "RELEASED" in line] != []


@pytest.mark.loopback
def test_evidence_of_ones_own_comes_first(tmp_path: Path, vectors_dir: Path) -> None:
    snp = vectors_dir / "sev-snp"
    report = snp / "genoa-v5-vcek/report.bin"
    told = told_of_ones_own(tmp_path, report, "--endorsements", snp, "--at", "2026-11-01T00:00:00Z")
    assert "VERIFIED under the vendor's root" in told
    assert "UNCHECKED revocation" in told
    assert "✗" not in told


@pytest.mark.loopback
def test_what_nobody_gave_for_a_tdx_quote_is_left_out_by_name(tmp_path: Path, vectors_dir: Path) -> None:
    quote = vectors_dir / "tdx/v4-b0c06f000000-uptodate/quote.bin"
    told = told_of_ones_own(tmp_path, quote, "--at", "2025-06-20T00:00:00Z")
    assert "UNCHECKED revocation" in told
    assert "UNCHECKED tcb" in told
    assert "✗" not in told


@pytest.mark.loopback
def test_evidence_that_does_not_hold_is_told_and_counts(tmp_path: Path) -> None:
    (tmp_path / "bad.bin").write_bytes(b"nonsense")
    (tmp_path / "below").mkdir()
    ran = demo(tmp_path / "below", tmp_path / "bad.bin")
    assert ran.returncode == 1
    assert "bad.bin: REFUSED" in ran.stdout
    assert "1 steps did not come out" in ran.stdout


def test_a_file_that_is_not_there_is_usage(tmp_path: Path) -> None:
    assert demo(tmp_path, tmp_path / "absent").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "listens on" in line:
                break
        assert processes_of(tmp_path)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in err
    deadline = time.monotonic() + 10
    while processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", ["exit 3", "echo broken >&2; exit 1", "sleep 600"])
def test_a_service_that_does_not_start_is_an_error_and_leaves_nothing_behind(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attest.cli import demo_service
    from attest.errors import ConfigurationError

    program = tmp_path / "kms"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o700)
    monkeypatch.setattr(demo_service, "START_SECONDS", 0.5)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with (
        pytest.raises(ConfigurationError) as outcome,
        demo_service.running_service(tmp_path / "c", endorsements=tmp_path, folder=tmp_path),
    ):
        pytest.fail("it cannot be ready")
    assert outcome.value.code == "kms-failed"
    assert processes_of(tmp_path) == []


def test_without_kms_there_is_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attest.cli.demo_service import run_kms
    from attest.errors import ConfigurationError

    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError) as outcome:
        run_kms(["init"])
    assert outcome.value.code == "kms-missing"


def test_a_story_that_comes_out_otherwise_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from attest.cli.demo_story import Narrator
    from attest.errors import EvidenceError

    out = Narrator(colour=False)
    with out.refusal("something good", "code-expected"):
        pass
    with out.refusal("something else", "code-expected"):
        raise EvidenceError("other", code="code-other")
    with out.refusal("as expected", "code-expected"):
        raise EvidenceError("this", code="code-expected")
    assert len(out.failed) == 2
    assert "accepted, and should have been refused" in capsys.readouterr().out
