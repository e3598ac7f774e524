"""`attest inspect` shows an event log, replays it, and says which of its texts were measured."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Attest, Files
from tests.evidence.eventlog import writer as w


def shown(attest: Attest, path: Path) -> dict[str, Any]:
    ran = attest("inspect", path, "--json")
    assert ran.code == 0, ran.err
    (file,) = ran.document["files"]
    assert (ran.document["verified"], file["form"], file["label"]) == (False, "ccel", "TCG event log")
    found: dict[str, Any] = file["event_log"]
    return found


def test_a_log_event_by_event(attest: Attest, files: Files) -> None:
    from attest.evidence.eventlog.replay import replay
    from attest.evidence.eventlog.structure import parse_event_log

    data = w.log(*w.boot(), end=b"\xff" * 100)
    found = shown(attest, files.write("log", data))
    assert (found["kind"], found["algorithms"], found["padding_bytes"]) == ("CCEL", ["SHA-384"], 100)
    assert found["log_bytes"] == len(data) - 100
    assert [*found["replayed"].values()] == [value.hex() for value in replay(parse_event_log(data)).values.values()]
    assert len(found["events"]) == found["event_count"] == len(w.boot())
    first = found["events"][0]
    assert (first["number"], first["register"], first["type"]) == (1, "RTMR0", "EV_EFI_VARIABLE_DRIVER_CONFIG")
    assert (first["data"], first["text"]) == ("verified", "SecureBoot = 01")
    assert found["events"][6]["hex"] == "00000000"


def test_a_log_that_was_changed_is_shown_with_the_event_that_was(attest: Attest, files: Files) -> None:
    data = w.log(w.secure_boot(b"\0"))
    (event,) = shown(attest, files.write("log", data[:-1] + b"\1"))["events"]
    assert event["data"].startswith("MISMATCH")
    assert event["text"] == "SecureBoot = 01"


def test_long_data_is_shown_in_part_and_no_data_not_at_all(attest: Attest, files: Files) -> None:
    log = w.log(w.event(1, w.POST_CODE, b"\x80" * 300), w.event(1, w.POST_CODE, b""))
    long, empty = shown(attest, files.write("log", log))["events"]
    assert (long["hex"], long["data_bytes"]) == ("80" * 256 + "…", 300)
    assert not {"hex", "text"} & set(empty)


def test_a_log_of_a_tpm(attest: Attest, files: Files) -> None:
    header = w.header((4, 20), (w.SHA256, 32), (0x27, 32), index=0)
    found = shown(attest, files.write("log", header + w.tpm_event(7, w.SEPARATOR, bytes(4))))
    assert (found["kind"], found["algorithms"]) == ("TCG2", ["SHA-1", "SHA-256", "0x0027"])
    separated = sha256(bytes(32) + sha256(bytes(4)).digest()).hexdigest()
    assert found["replayed"] == {f"pcr{n}": separated if n == 7 else "00" * 32 for n in (*range(8), 14)}
    assert (found["events"][0]["register"], found["events"][0]["data"]) == ("PCR7", "verified")


def test_a_page_is_readable_and_harmless(attest: Attest, files: Files) -> None:
    log = files.write("log", w.log(*w.boot(), w.event(3, w.IPL, b"grub_cmd: \x1b[2Jls\0")))
    ran = attest("inspect", log)
    assert ran.code == 0
    assert "grub_cmd: linux /vmlinuz quiet" in ran.out
    assert "\x1b" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_broken_log_is_exit_3(attest: Attest, files: Files) -> None:
    ran = attest("inspect", files.write("log", w.log(w.secure_boot())[:-1]))
    assert (ran.code, ran.out) == (3, "")
    assert "event log, event 1" in ran.err


@pytest.mark.parametrize("name", ["live2", "grub", "alibaba-aael"])
def test_recorded_logs_can_be_shown(attest: Attest, vectors_dir: Path, name: str) -> None:
    found = shown(attest, vectors_dir / "ccel" / name / "ccel.bin")
    assert not any(event["data"].startswith("MISMATCH") for event in found["events"])
