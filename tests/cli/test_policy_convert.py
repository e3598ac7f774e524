"""`attest policy convert`."""

import json
from pathlib import Path

import pytest

from attest.policy import load_policy
from attest.policy.foreign.skr import parse_skr
from tests.cli.conftest import Attest, Files
from tests.policy.nvidia_documents import gpu_claims, nvidia
from tests.policy.skr_documents import ISSUER, MEASUREMENT, equals, skr

TEE = "x-ms-isolation-tee."
REPORT = equals(f"{TEE}x-ms-sevsnpvm-launchmeasurement", MEASUREMENT)
GREATER = {"claim": f"{TEE}x-ms-sevsnpvm-guestsvn", "greater": 1}
WE_VERIFY = ("--accept-loss", "authority=we verify ourselves")


@pytest.fixture
def release(files: Files) -> Path:
    return files.write("release.json", skr(REPORT, equals("secureboot", True)))


def test_nothing_is_written_while_a_loss_is_not_accepted(attest: Attest, release: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours.json"
    ran = attest("policy", "convert", release, "-o", target, *WE_VERIFY)
    assert ran.code == 1
    assert not target.exists()
    assert "virtual TPM" in ran.out
    assert "error: not carried, and not accepted: secureboot" in ran.err
    assert "--accept-loss" in ran.err
    told = attest("policy", "convert", release, "--json")
    assert told.code == 1
    assert (told.document["outcome"], told.document["policy"]) == ("not-accepted", None)
    assert [loss["name"] for loss in told.document["losses"]] == ["authority", "secureboot"]
    assert attest("policy", "convert", release, "-q").out == ""


def test_what_is_accepted_is_written_with_the_reason(attest: Attest, release: Path, tmp_path: Path) -> None:
    target = tmp_path / "ours.json"
    arguments = ("policy", "convert", release, *WE_VERIFY, "--accept-loss", "secureboot=no TPM here", "--name", "ours")
    ran = attest(*arguments, "-o", target)
    assert (ran.code, ran.out) == (0, "")
    assert "warning: not carried: secureboot" in ran.err
    assert load_policy(target.read_bytes()).name == "ours"
    assert "secureboot (no TPM here)" in json.loads(target.read_bytes())["description"]
    assert attest("policy", "check", target).code == 0
    again = attest(*arguments, "-o", target)
    assert again.code == 2
    assert attest(*arguments, "-o", target, "--force", "-q").err == ""
    shown = attest(*arguments, "-v", "-o", "-")
    assert shown.document == json.loads(target.read_bytes())
    assert "note: carried: x-ms-isolation-tee.x-ms-sevsnpvm-launchmeasurement as snp.measurement" in shown.err
    assert "note: stricter than the source: snp.vmpl" in shown.err
    both = attest(*arguments, "-o", target, "--force", "--json")
    assert both.document["policy"] == json.loads(target.read_bytes())
    assert both.document["stricter"]


def test_nvidia_json_is_recognised(attest: Attest, files: Files) -> None:
    policy = files.write("nvidia.json", nvidia(gpu_claims()))
    ran = attest("policy", "convert", policy, "--json")
    assert ran.code == 0
    assert (ran.document["from"], ran.document["to"], ran.document["losses"]) == ("nvidia", "attest", [])
    assert ran.document["schema"] == "attest.policy-conversion/1"
    same = attest("policy", "convert", "-", "--from", "nvidia", stdin=policy.read_bytes())
    assert same.document == ran.document["policy"]


def test_our_policy_becomes_a_release_policy(attest: Attest, files: Files) -> None:
    arguments = ("policy", "convert", files.policy(), "--authority", ISSUER, "--guest", "container", "--extended")
    refused = attest(*arguments, "--json")
    assert refused.code == 1
    reasons = [f"--accept-loss={loss['name']}=a test" for loss in refused.document["losses"]]
    ran = attest(*arguments, *reasons)
    assert ran.code == 0
    policy = parse_skr(ran.out.encode(), extended=True)
    assert policy.authorities[0].url == ISSUER
    assert ran.document["anyOf"][0]["allOf"][0] == equals("x-ms-attestation-type", "sevsnpvm")


def test_operators_that_azure_ignores_are_asked_for(attest: Attest, files: Files) -> None:
    policy = files.write("extended.json", skr(GREATER))
    assert attest("policy", "convert", policy, *WE_VERIFY).code == 2
    ran = attest("policy", "convert", policy, *WE_VERIFY, "--extended")
    assert ran.document["snp"]["minimum_guest_svn"] == 2
    assert "not portable to Azure" in ran.err


def test_one_of_several_authorities_is_chosen(attest: Attest, files: Files) -> None:
    listed = [
        {"authority": f"https://{place}.example", "allOf": [kind]} for place, kind in (("a", REPORT), ("b", GREATER))
    ]
    listed[1]["allOf"] = [equals(f"{TEE}x-ms-sevsnpvm-vmpl", 0)]
    policy = files.write("two.json", json.dumps({"version": "1.0.0", "anyOf": listed}).encode())
    both = attest("policy", "convert", policy, *WE_VERIFY)
    assert both.code == 1
    assert "name          authorities" in both.out
    ran = attest("policy", "convert", policy, *WE_VERIFY, "--authority", "https://b.example")
    assert ran.document["snp"]["vmpl"] == [0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "skr"],
        ["--guest", "cvm"],
        ["--from", "nvidia"],
        ["--from", "attest", "--authority", ISSUER],
        ["--from", "attest", "--to", "attest"],
        ["--from", "nvidia", "--authority", ISSUER],
        ["--from", "nvidia", "--extended"],
        ["--from", "attest"],
        ["--from", "attest", "--authority", ISSUER, "--name", "x"],
        ["--accept-loss", "authority"],
        ["--accept-loss", "authority= "],
        ["--accept-loss", "=x"],
        [*WE_VERIFY, *WE_VERIFY],
        ["--accept-loss", "authorty=a typing error"],
        ["--name", "No Name", *WE_VERIFY],
    ],
)
def test_what_makes_no_sense_is_wrong_use(attest: Attest, files: Files, arguments: list[str]) -> None:
    release = files.write("release.json", skr(REPORT))
    ran = attest("policy", "convert", release, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err


def test_a_file_that_is_none_is_wrong_use(attest: Attest, files: Files) -> None:
    for data in (b"", b"{", b'{"version": "1.0.0", "allOf": []}', b'{"authorization-rules": {}}'):
        ran = attest("policy", "convert", files.write("bad.json", data), "--authority", ISSUER)
        assert (ran.code, ran.out) == (2, "")
    assert attest("policy", "convert", files.folder / "gone.json").code == 2
