"""`--reference-log`: which event was the first to differ from a known good boot?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest_simulator.intel import SimulatedTd, application_event, typical_boot
from tests.cli.conftest import LAB, Attest, Files
from tests.policy.intel_documents import AT, PLATFORM, REPORT_DATA, TD

LINE = "/vmlinuz init=/bin/sh"
OTHER = replace(TD, log=typical_boot(command_line=LINE))
FRESH = ("--report-data", REPORT_DATA.hex())


def given(files: Files, td: SimulatedTd, *, log: bool = True, reference: SimulatedTd = TD) -> tuple[object, ...]:
    """What the command is called with: a quote, perhaps its log, collateral, and the log of a known good boot."""
    files.write("collateral.json", PLATFORM.collateral("tdx", at=AT).to_json())
    logs: tuple[object, ...] = ("--eventlog", files.write("log", td.event_log())) if log else ()
    return (
        files.write("quote.bin", td.quote(REPORT_DATA, version=5)),
        *logs,
        "--reference-log",
        files.write("reference", reference.event_log(size=65536)),
        "--endorsements",
        files.folder / "collateral.json",
        *LAB,
        *FRESH,
    )


def policy(files: Files) -> Path:
    """A policy that accepts the registers of the known good boot alone."""
    values = {"image": TD.mr_td, **{f"rtmr{number}": value for number, value in enumerate(TD.rtmrs)}}
    references = "\n".join(f"  {name}: {{origin: x, values: ['{value.hex()}']}}" for name, value in values.items())
    demands = "\n".join(f"  rtmr{number}: [rtmr{number}]" for number in range(4))
    text = f"""
schema: attest.policy/1
name: known-boot
version: 1
simulated: {{unchecked: a test}}
reference_values:
{references}
tdx:
  mr_td: [image]
{demands}
"""
    return files.write("policy.yaml", text.encode())


def test_the_same_boot_agrees(attest: Attest, files: Files) -> None:
    ran = attest("appraise", *given(files, TD), "--policy", policy(files), "--json")
    assert ran.code == 0, ran.err
    assert ran.document["reference_log"] == {"verified": True, "eventlog": True, "agrees": True, "registers": []}
    assert "no difference" in attest("verify", *given(files, TD)).out


def test_an_rtmr_that_is_not_the_expected_one_names_the_first_event_that_differs(attest: Attest, files: Files) -> None:
    ran = attest("appraise", *given(files, OTHER), "--policy", policy(files), "--json")
    assert (ran.code, ran.check("policy.tdx.rtmr2")["outcome"]) == (1, "fail")
    told = ran.document["reference_log"]
    assert (told["verified"], told["agrees"]) == (True, False)
    (register,) = told["registers"]
    assert (register["register"], register["position"]) == ("RTMR2", 1)
    assert (register["expected"], register["got"]) == (TD.rtmrs[2].hex(), OTHER.rtmrs[2].hex())
    expected, got = register["expected_event"], register["got_event"]
    assert (expected["number"], expected["type"]) == (17, "EV_IPL")
    assert expected["text"] == "grub_cmd: linux /vmlinuz root=/dev/vda1 ro console=ttyS0"
    assert got["text"] == f"grub_cmd: linux {LINE}"
    assert len(got["digest"]) == 96
    assert [event["number"] for event in register["missing"]] == [17, 18]
    assert [event["number"] for event in register["extra"]] == [17, 18]
    page = attest("appraise", *given(files, OTHER), "--policy", policy(files)).out
    assert "RTMR2 differs from its event 1 on" in page
    assert LINE in " ".join(page.split())


def test_a_log_that_goes_on_or_ends_early(attest: Attest, files: Files) -> None:
    longer = TD.extend(3, application_event("example.com", "load", "model"))
    ran = attest("verify", *given(files, longer), "--json")
    (register,) = ran.document["reference_log"]["registers"]
    assert (ran.code, register["register"], register["position"]) == (0, "RTMR3", 1)
    assert "expected_event" not in register
    assert register["got_event"]["text"].endswith("example.com load model")
    ran = attest("verify", *given(files, TD, reference=longer), "--json")
    (register,) = ran.document["reference_log"]["registers"]
    assert "got_event" not in register
    assert register["missing"] == [register["expected_event"]]
    assert "the log ends before it" in attest("verify", *given(files, longer)).out


def test_without_a_log_the_registers_alone_are_compared(attest: Attest, files: Files) -> None:
    ran = attest("verify", *given(files, OTHER, log=False), "--json")
    told = ran.document["reference_log"]
    assert (ran.code, told["eventlog"], told["agrees"]) == (0, False, False)
    (register,) = told["registers"]
    assert set(register) == {"register", "expected", "got"}
    assert "no event shows where" in attest("verify", *given(files, OTHER, log=False)).out
    assert attest("verify", *given(files, TD, log=False), "--json").document["reference_log"]["agrees"] is True


@pytest.mark.parametrize("command", ["verify", "appraise"])
def test_a_log_that_does_not_replay_is_refused_and_compared_all_the_same(
    attest: Attest, files: Files, command: str
) -> None:
    arguments = [*given(files, TD)]
    files.write("log", OTHER.event_log())
    ran = attest(command, *arguments, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "eventlog-register-mismatch")
    told = ran.document["reference_log"]
    assert (told["verified"], [register["register"] for register in told["registers"]]) == (False, ["RTMR2"])
    assert "not authenticated" in attest(command, *arguments).out


@contextmanager
def usage(ran: Any) -> Iterator[str]:  # noqa: ANN401  what a command did
    """It is wrong usage: exit 2, and no document."""
    assert (ran.code, ran.out) == (2, "")
    yield ran.err


def test_a_reference_log_that_cannot_serve_is_usage(attest: Attest, files: Files) -> None:
    quote, *others = given(files, TD, log=False)
    files.write("reference", b"no log")
    with usage(attest("verify", quote, *others, "--json")) as text:
        assert "--reference-log" in text
        assert "CCEL" in text
    with usage(attest("verify", quote, *LAB, "--reference-log", files.folder / "absent", "--json")) as text:
        assert "absent" in text
    reference = files.write("reference", TD.event_log())
    with usage(attest("verify", files.extended, *LAB, "--reference-log", reference, "--json")) as text:
        assert "registers" in text


def test_evidence_that_cannot_be_read_comes_before_the_comparison(attest: Attest, files: Files) -> None:
    arguments = [*given(files, TD)]
    files.write("log", b"no log")
    ran = attest("verify", *arguments, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (3, "eventlog-malformed")
    assert "reference_log" not in ran.document
