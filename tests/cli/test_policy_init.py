"""`attest policy init`, and the story of a demonstration: draft, affirm, change one value, see what is named."""

from pathlib import Path

import pytest

from attest.policy import load_policy
from tests.cli.conftest import LAB, WHEN, Attest, Files

NONCE = "0123456789abcdef" * 4
QUESTION = ("--nonce-text", Files.NONCE)


def test_the_story_of_the_demonstration(attest: Attest, files: Files) -> None:
    made = attest("policy", "init", "--from", files.extended, *LAB, "--name", "mine", "-o", "mine.yaml")
    assert made.code == 0
    assert made.out.startswith("mine.yaml: policy 'mine', digest ")
    assert "warning: the policy accepts SIMULATED evidence" in made.err
    path = files.folder / "mine.yaml"
    text = path.read_text()
    assert text.splitlines()[0].startswith("# yaml-language-server: $schema=")
    arguments = ("appraise", files.extended, "--policy", "mine.yaml", *LAB, *QUESTION)
    assert attest(*arguments, "-q").code == 0
    # One firmware version above what the machine has: it turns red, and says which, what was wanted, what was there.
    path.write_text(text.replace("microcode: 84", "microcode: 85"))
    ran = attest(*arguments, "--json")
    assert ran.code == 1
    check = ran.check("policy.snp.minimum_tcb")
    assert "microcode 85" in check["expected"]
    assert "microcode 84" in check["got"]
    told = attest("policy", "explain", "mine.yaml", "--against", files.extended, *LAB, *QUESTION)
    assert told.code == 1
    assert "FAILED policy.snp.minimum_tcb (cpu)" in told.out
    assert "how to fix  Have the host's owner update its firmware" in told.out
    # The same for the measurement.
    digest = files.guest.measurement.hex()
    path.write_text(text.replace(digest, "00" * 48))
    ran = attest(*arguments, "--json")
    assert (ran.code, ran.check("policy.snp.measurement")["got"]) == (1, digest)
    assert [c["id"] for c in ran.document["checks"] if c["outcome"] == "fail"] == ["policy.snp.measurement"]


def test_a_machine_with_devices_is_drafted_and_one_driver_version_changed_turns_it_red(
    attest: Attest, files: Files
) -> None:
    machine = ("--gpus", 8, "--switches", 4, "--form", "envelope", "--nonce", NONCE, "--at", WHEN)
    attest("simulate", "td", *machine, "-o", "m", "--device-endorsements-out", "e", "--collateral-out", "c")
    question = ("--endorsements", "e", "--endorsements", "c", *LAB, "--nonce", NONCE)
    assert attest("policy", "init", "--from", "m", *question, "-o", "p.yaml", "-q").err == ""
    assert attest("appraise", "m", "--policy", "p.yaml", *question, "-q").code == 0
    path = files.folder / "p.yaml"
    text = path.read_text()
    assert "gpus: 8" in text
    assert "switches: 4" in text
    exactly = text.partition("driver_versions: [{exactly: ")[2].partition("}")[0].strip('"')
    path.write_text(text.replace(f'exactly: "{exactly}"', 'exactly: "999.1"'))
    ran = attest("policy", "explain", "p.yaml", "--against", "m", *question, "--json")
    assert ran.code == 1
    assert {row["id"] for row in ran.document["failed"]} == {"policy.gpu.driver_versions"}
    (row, *_) = ran.document["failed"]
    assert (row["item"], row["expected"], row["got"]) == ("gpu0", "exactly 999.1", exactly)


def test_the_policy_goes_to_standard_output_or_into_a_document(attest: Attest, files: Files) -> None:
    shown = attest("policy", "init", "--from", files.extended, *LAB)
    policy = load_policy(shown.out.encode())
    assert (policy.name, shown.code) == ("my-policy", 0)
    ran = attest("policy", "init", "--from", files.extended, *LAB, "--json", "--reference", "image")
    assert ran.document["schema"] == "attest.policy-init/1"
    assert (ran.document["simulated"], ran.document["weak"]) == (True, [])
    assert ran.document["fields"] == {"snp.tcb": "or-newer", "snp.chip": "any"}
    assert list(ran.document["policy"]["reference_values"]) == ["image"]
    again = attest("policy", "init", "--from", files.extended, *LAB, "-o", "p", "-v")
    assert "note: snp.tcb: or-newer" in again.err
    assert attest("policy", "init", "--from", files.extended, *LAB, "-o", "p").code == 2
    assert attest("policy", "init", "--from", files.extended, *LAB, "-o", "p", "--force", "-q").out == ""


def test_evidence_of_several_files_follows_the_option(attest: Attest, files: Files) -> None:
    attest("simulate", "gpu", "--nonce", NONCE, "--at", WHEN, "-o", "g", "--device-endorsements-out", "e")
    ran = attest("policy", "init", "--from", files.extended, "g", "--endorsements", "e", *LAB)
    assert ran.code == 0
    assert "measurement: [this-machine]" in ran.out
    assert "gpus: 1" in ran.out


def test_what_is_weak_is_told_aloud(attest: Attest, files: Files) -> None:
    attest("simulate", "gpu", "--nonce", NONCE, "--at", WHEN, "-o", "g", "--device-endorsements-out", "e")
    ran = attest("policy", "init", "--from", "g", "--endorsements", "e", *LAB, "--exactly", "gpu.device")
    assert ran.code == 0
    assert "warning: WEAKER than a strict policy: devices.bound: this machine does not meet it" in ran.err
    assert "device_identities: [" in ran.out
    assert "# WEAKER than a strict policy, because this machine is." in ran.out


def test_fields_are_asked_for_when_that_is_wanted(attest: Attest, files: Files) -> None:
    arguments = ("policy", "init", "--from", files.extended, *LAB, "--interactive", "-o", "p.yaml")
    ran = attest(*arguments, stdin=b"exactly\nexactly\n")
    assert ran.code == 0
    assert "the chip, by CHIP_ID (snp.chip)" in ran.err
    assert "AMD's firmware (TCB) (snp.tcb)" in ran.err
    text = (files.folder / "p.yaml").read_text()
    assert "\n  chip_ids:" in text
    assert "\n  exact_tcb:" in text


def test_evidence_that_does_not_verify_gives_no_policy(attest: Attest, files: Files) -> None:
    for arguments, code in (
        (["--from", files.flipped, *LAB], 4),
        (["--from", files.without_crl, *LAB], 5),
        (["--from", files.write("junk", b"junk"), *LAB], 3),
        (["--from", files.extended, "--offline", "--at", WHEN], 4),
    ):
        ran = attest("policy", "init", *arguments, "-o", "p.yaml")
        assert (ran.code, ran.out) == (code, ""), arguments
        assert not (files.folder / "p.yaml").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--exactly", "snp.tcb", "--or-newer", "snp.tcb"],
        ["--exactly", "gpu.driver"],
        ["--or-newer", "nothing"],
        ["--name", "No Name"],
        ["--default", "any"],
    ],
)
def test_wrong_options(attest: Attest, files: Files, options: list[str]) -> None:
    ran = attest("policy", "init", "--from", files.extended, *LAB, *options)
    assert (ran.code, ran.out) == (2, "")


def test_a_token_is_no_evidence_of_a_machine(attest: Attest, files: Files) -> None:
    token = files.write("token", b"eyJhbGciOiJub25lIn0.e30.")
    for command in (("init", "--from"), ("explain", files.policy(), "--against")):
        ran = attest("policy", *command, token, *LAB)
        assert (ran.code, ran.out) == (2, "")
        assert "use the evidence" in ran.err


def test_no_evidence_is_wrong_usage(attest: Attest, tmp_path: Path) -> None:
    assert attest("policy", "init").code == 2
    assert "name the evidence" in attest("policy", "init").err
