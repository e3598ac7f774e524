"""``attest receipt``: a receipt is checked with its chain, and every refusal has its exit code and a hint."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from attest.receipts import OpenedModel, ReceiptFile
from tests.cli.conftest import LAB, WHEN, Attest, Files
from tests.receipts.machine import (
    CHALLENGE,
    ISSUER,
    REQUEST,
    RESPONSE,
    Machine,
    opened,
    released,
    sealed_model,
)
from tests.samples import NONCE
from tests.sealed.made import OWNER, STRANGER, public_pem


@dataclass
class Given:
    """The files of one receipt in the working directory."""

    files: Files
    file: ReceiptFile

    def write(self, name: str, data: bytes) -> Path:
        return self.files.write(name, data)

    @property
    def options(self) -> tuple[object, ...]:
        """Everything that a complete check takes, but the bodies."""
        return (
            *("--policy", self.files.policy(), "--model-owner", self.write("owner.pub", public_pem(OWNER))),
            *("--endorsements", self.files.endorsements),
            *LAB,
        )

    @property
    def bodies(self) -> tuple[object, ...]:
        return "--request", self.write("q.json", REQUEST), "--response", self.write("a.txt", RESPONSE)

    @property
    def receipt(self) -> Path:
        return self.write("a.receipt", self.file.to_bytes())


@pytest.fixture
def given(files: Files) -> Given:
    return Given(files=files, file=Machine(guest=files.guest).file(challenge=CHALLENGE))


def test_a_receipt_is_affirmed_with_both_bodies(attest: Attest, given: Given) -> None:
    names = ("--service", ISSUER, "--nonce", NONCE.hex(), "--challenge", CHALLENGE.hex(), "--max-age", "60")
    ran = attest("receipt", "verify", given.receipt, *given.bodies, *given.options, *names, "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    assert (document["schema"], document["command"]) == ("attest.result/1", "receipt verify")
    assert (document["outcome"], document["simulated"], document["freshness"]) == ("affirmed", True, "matched")
    receipts = [check for check in document["checks"] if check["id"].startswith("receipt.")]
    assert {check["outcome"] for check in receipts} == {"pass"}
    assert len(receipts) == 16
    assert document["receipt"]["claims"]["iss"] == ISSUER
    assert document["receipt"]["models"][0]["key"] == "default/model@1"
    assert document["receipt"]["models"][0]["release"]["simulated"] is True
    assert document["warnings"] == []


@pytest.mark.parametrize("form", ["cbor", "json"])
def test_both_forms_of_the_file_are_read(attest: Attest, given: Given, form: str) -> None:
    data = given.file.to_bytes() if form == "cbor" else given.file.to_json()
    ran = attest("receipt", "verify", "-", *given.bodies, *given.options, stdin=data)
    assert ran.code == 0, ran.err
    for text in ("SIMULATED", "AFFIRMED", ISSUER, "temperature 0.7", "model", "POST /v1/chat/completions"):
        assert text in ran.out


def test_what_was_not_compared_is_a_warning(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "verify", given.receipt, *given.options, "--json")
    assert ran.code == 0
    assert {one["code"] for one in ran.document["warnings"]} == {"freshness-not-evaluated", "body-not-compared"}
    assert ran.check("receipt.request")["outcome"] == "not evaluated"
    assert [one["check"] for one in ran.document["unchecked"]] == ["freshness"]


def last_line(shown: str) -> str:
    """The last paragraph of a page, in one line."""
    return " ".join(shown.rstrip().split("\n\n")[-1].split("\n"))


def test_a_cut_answer_is_refused_unless_it_is_asked_for_and_a_model_loaded_in_part_is_a_warning(
    attest: Attest, files: Files
) -> None:
    model = OpenedModel(directory=opened(sealed_model(), whole=False), release=released())
    machine = Machine(guest=files.guest, models=(model,))
    given = Given(files=files, file=machine.file(events=(b"half",), complete=False))
    ran = attest("receipt", "verify", given.receipt, *given.options, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "receipt-answer-incomplete")
    assert "--allow-incomplete" in ran.err
    ran = attest("receipt", "verify", given.receipt, *given.options, "--allow-incomplete", "--json")
    assert ran.code == 0
    codes = {one["code"] for one in ran.document["warnings"]}
    assert {"answer-incomplete", "model-partly-decrypted"} <= codes
    shown = attest("receipt", "verify", given.receipt, *given.options, "--allow-incomplete")
    assert "CUT OFF" in shown.out
    assert last_line(shown.out).endswith(
        "with warnings: freshness-not-evaluated, answer-incomplete, model-partly-decrypted, body-not-compared"
    )


def test_the_last_line_has_no_warnings_where_everything_was_compared(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "verify", given.receipt, *given.bodies, *given.options, "--nonce", NONCE.hex())
    assert last_line(ran.out) == "AFFIRMED (SIMULATED)  by policy 'unit' version 3"


def test_a_compact_receipt_takes_its_parts_from_files(attest: Attest, given: Given) -> None:
    small = given.write("small.receipt", given.file.compact().to_bytes())
    ran = attest("receipt", "verify", small, *given.options)
    assert ran.code == 5
    assert "error: the receipt names its statement by a digest" in ran.err
    assert "hint: give the file with --part" in ran.err
    parts = [("--part", given.write(f"part{at}", data)) for at, data in enumerate(given.file.parts)]
    ran = attest("receipt", "verify", small, *[word for pair in parts for word in pair], *given.options)
    assert ran.code == 0, ran.err
    assert "is not used" not in ran.err
    ran = attest("receipt", "verify", given.receipt, "--part", given.write("other", b"x"), *given.options)
    assert "other is not used: no part that is missing has its SHA-256 2d711642" in ran.err


@pytest.mark.parametrize(
    ("change", "code", "check"),
    [
        ({"--request": b"other"}, 4, "receipt.request"),
        ({"--response": RESPONSE[:-1]}, 4, "receipt.response"),
        ({"--model-owner": public_pem(STRANGER)}, 4, "receipt.manifest"),
    ],
    ids=str,
)
def test_a_file_of_something_else_is_refused(
    attest: Attest, given: Given, change: dict[str, bytes], code: int, check: str
) -> None:
    arguments = [*given.bodies, *given.options]
    for name, data in change.items():
        arguments[arguments.index(name) + 1] = given.write("other", data)
    ran = attest("receipt", "verify", given.receipt, *arguments, "--json")
    assert ran.code == code
    assert ran.document["outcome"] == "refused"
    assert ran.check(check)["outcome"] == "fail"
    assert "hint:" in ran.err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--service", "other"), "receipt-binding-mismatch"),
        (("--nonce", "00" * 32), "nonce-mismatch"),
        (("--model-id", "00" * 16), "receipt-model-mismatch"),
        (("--challenge", "00" * 16), "receipt-challenge-mismatch"),
        (("--max-age", "0", "--at", "2026-06-01T00:00:01Z"), "receipt-time-invalid"),
        (("--at", "2026-05-31T23:57:59Z"), "receipt-time-invalid"),
    ],
    ids=str,
)
def test_another_exchange_than_the_wanted_one_is_refused(
    attest: Attest, given: Given, options: tuple[str, ...], code: str
) -> None:
    ran = attest("receipt", "verify", given.receipt, *given.options, *options, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, code)


def test_a_machine_that_the_policy_does_not_affirm_is_exit_code_1(attest: Attest, given: Given) -> None:
    policy = given.files.policy(name="other", measurement=bytes(48))
    ran = attest("receipt", "verify", given.receipt, *given.options, "--policy", policy, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (1, "not-affirmed")
    assert ran.check("policy.snp.measurement")["outcome"] == "fail"
    assert ran.check("receipt.policy")["outcome"] == "fail"


def test_the_simulator_is_refused_without_its_option(attest: Attest, given: Given) -> None:
    options = [one for one in given.options if one != "--allow-simulated"]
    ran = attest("receipt", "verify", given.receipt, *options, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "simulated-root-refused")
    assert ran.document["simulated"] is True


def test_a_missing_endorsement_is_exit_code_5(attest: Attest, given: Given, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    options = [empty if one == given.files.endorsements else one for one in given.options]
    ran = attest("receipt", "verify", given.receipt, *options, "--json")
    assert ran.code == 5
    assert ran.check("receipt.evidence")["outcome"] == "fail"
    relaxed = attest("receipt", "verify", given.receipt, *given.options, "--unchecked", "revocation=a test", "--json")
    assert relaxed.code == 0
    assert "a test" in {one["reason"] for one in relaxed.document["unchecked"]}


@pytest.mark.parametrize("command", ["verify", "show"])
@pytest.mark.parametrize("data", [b"", b"{", b"\xa0", b"x" * 100, b'{"schema":"attest.receipt-file/1"}'], ids=repr)
def test_a_file_that_is_no_receipt_is_exit_code_3(attest: Attest, given: Given, command: str, data: bytes) -> None:
    bad = given.write("bad", data)
    ran = attest("receipt", command, bad, *(given.options if command == "verify" else ()))
    assert ran.code == 3
    assert "error: receipt file" in ran.err
    assert "hint:" in ran.err
    if command == "verify":
        assert "receipt.format" in ran.out
        assert "evidence.format" not in ran.out


def test_a_file_of_another_kind_is_named_with_its_beginning(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "show", given.files.policy())
    assert ran.err.startswith(
        "error: receipt file: expected a receipt with its chain in CBOR or JSON, got a file that begins with b'"
    )
    cut = attest("receipt", "show", given.write("cut", given.file.to_bytes()[:5000]))
    assert "premature end" in cut.err
    assert "hint: get the receipt again from the service" in cut.err


def test_files_that_cannot_be_read_and_impossible_values_are_usage(attest: Attest, given: Given) -> None:
    for arguments in (
        ("nowhere", *given.options),
        (given.receipt, *given.options, "--request", "nowhere"),
        (given.receipt, *given.options, "--part", "nowhere"),
        (given.receipt, *given.options[2:]),
        (given.receipt, *given.options, "--challenge", ""),
        (given.receipt, *given.options, "--challenge", "00" * 7),
        (given.receipt, *given.options, "--model-owner", given.write("bad.pub", b"x")),
    ):
        assert attest("receipt", "verify", *arguments).code == 2


def test_a_wrong_key_of_the_owner_is_named_with_its_option_and_file(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "verify", given.receipt, *given.options, "--model-owner", given.write("bad.pub", b"x"))
    assert "error: --model-owner " in ran.err
    assert "bad.pub: expected a public key in PEM" in ran.err


def test_the_content_is_shown_and_called_unverified(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "show", given.receipt)
    assert ran.code == 0
    assert "nothing is verified" in ran.err
    for text in (ISSUER, "attest test", "config.json", "temperature"):
        assert text in ran.out


def test_the_shown_document_has_digests_of_every_part(attest: Attest, given: Given) -> None:
    ran = attest("receipt", "show", given.receipt, "--json")
    document = json.loads(ran.out)
    assert (document["schema"], document["verified"], ran.code) == ("attest.receipt-info/1", False, 0)
    assert document["statement"]["models"][0]["parts"][0]["files"]["config.json"] == 1
    small = attest("receipt", "show", given.write("s", given.file.compact().to_bytes()), "--json")
    shown = json.loads(small.out)
    for name in ("evidence", "statement"):
        assert shown[name] == {"sha256": document[name]["sha256"], "size": None}
    assert shown["claims"] == document["claims"]
    assert shown["models"][0]["manifest"]["sha256"] == document["models"][0]["manifest"]["sha256"]


def test_the_moment_of_the_tests_is_that_of_the_receipt() -> None:
    assert Machine().at.isoformat().replace("+00:00", "Z") == WHEN
