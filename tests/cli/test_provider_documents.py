"""Documents of services on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Attest
from tests.evidence.providers import made


def written(folder: Path, name: str, document: object) -> Path:
    file = folder / name
    file.write_bytes(made.jsons(document))
    return file


def test_a_nonce_of_another_length_and_report_data_are_wrong_use(attest: Attest, tmp_path: Path) -> None:
    document = written(tmp_path, "report.json", made.machine())
    short = attest("verify", document, "--nonce", "00", "--offline")
    assert (short.code, "32 bytes" in short.err) == (2, True)
    data = attest("verify", document, "--report-data", "00" * 64, "--offline")
    assert (data.code, "--nonce" in data.err) == (2, True)


def test_inspect_shows_every_machine_and_its_items(attest: Attest, tmp_path: Path) -> None:
    gateway = written(tmp_path, "report.json", made.gateway())
    keys = written(tmp_path, "instances.json", made.instances("a"))
    ran = attest("inspect", gateway, keys, "--json")
    assert ran.code == 0
    first, second = json.loads(ran.out)["files"]
    (document,) = first["evidence"]["items"]
    assert [(machine["machine"], machine["role"]) for machine in document["machines"]] == [
        ("0", "gateway"),
        ("1", "model"),
    ]
    assert [item["name"] for item in document["machines"][1]["items"]] == ["cpu", "gpu0"]
    assert first["form"] == "provider-json"
    assert (second["form"], second["label"]) == ("none", "keys of a service's machines (JSON)")


def test_verify_prints_machines_and_warnings(attest: Attest, tmp_path: Path) -> None:
    document = written(tmp_path, "report.json", made.machine(gpus=()))
    ran = attest(
        *("verify", document, "--nonce", made.NONCE.hex(), "--offline", "--allow-simulated", "--json"),
        *("--unchecked", "tcb=a test", "--unchecked", "revocation=a test"),
    )
    result = json.loads(ran.out)
    assert (ran.code, result["outcome"], result["freshness"]) == (0, "verified", "matched")
    assert [(item["name"], item["machine"], item["role"]) for item in result["items"]] == [("0/cpu", "0", "model")]
    assert "gpus-not-shown" in {warning["code"] for warning in result["warnings"]}


def test_the_page_for_people_shows_bound_keys_and_what_is_not_proven(attest: Attest, tmp_path: Path) -> None:
    document = written(tmp_path, "report.json", made.gateway())
    lab = ("--offline", "--allow-simulated", "--nonce", made.NONCE.hex())
    relaxed = [option for name in ("tcb", "revocation", "rim") for option in ("--unchecked", f"{name}=a test")]
    ran = attest("verify", document, *lab, *relaxed)
    assert ran.code == 0
    for text in ("0/cpu: tdx (gateway)", "1/cpu: tdx (model)", "tls spki sha256", "warnings", "gpus-by-nonce"):
        assert text in ran.out


@pytest.mark.parametrize("command", ["verify", "appraise"])
def test_keys_that_nothing_binds_without_a_nonce_are_named_beside_the_verdict(
    attest: Attest, tmp_path: Path, command: str
) -> None:
    document = written(tmp_path, "evidence.json", made.chutes(made.instance("a")))
    keys = written(tmp_path, "instances.json", made.instances("a"))
    relaxed = ["tcb", "revocation", "rim", *(["freshness"] if command == "appraise" else [])]
    options = [option for name in relaxed for option in ("--unchecked", f"{name}=a test")]
    asked = (command, document, keys, "--offline", "--allow-simulated", *options)
    result = json.loads(attest(*asked, "--json").out)
    assert {"keys-not-bound", "freshness-not-evaluated"} <= {warning["code"] for warning in result["warnings"]}
    assert result["freshness"] == "not evaluated"
    cpu = next(item for item in result["items"] if item["name"] == "a/cpu")
    assert (cpu["claims"]["binding"], "key_scope" in cpu["claims"]) == ({}, False)
    shown = attest(*asked).out
    for text in ("keys-not-bound", "none is bound"):
        assert text in shown
