"""dstack on the command line: evidence, log, statements, app-compose."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent
from tests.cli.conftest import LAB, Attest, Files
from tests.evidence.dstack.made import APP_COMPOSE, COMPOSE_HASH, GUEST, Entry, event, stripped
from tests.evidence.dstack.test_statements import info
from tests.policy.intel_documents import AT, PLATFORM, REPORT_DATA, TD

FRESH = ("--report-data", REPORT_DATA.hex())
POLICIES = Path(__file__).resolve().parents[2] / "policies"


def quote() -> bytes:
    """Return the quote of a TD that has the registers of the made guest."""
    entries = tuple(
        LogEntry(
            index=entry["imr"] + 1,
            event=MeasuredEvent(kind=entry["event_type"], data=b"", digest=bytes.fromhex(entry["digest"])),
        )
        for entry in GUEST.entries
    )
    return replace(TD, log=entries, mr_config_id=GUEST.mr_config_id).quote(REPORT_DATA, version=5)


def as_json(entries: list[Entry] | tuple[Entry, ...]) -> bytes:
    return json.dumps(entries).encode()


@pytest.fixture
def given(files: Files) -> tuple[object, ...]:
    """Write a quote and collateral, and return the arguments that name them."""
    collateral = files.write("collateral.json", PLATFORM.collateral("tdx", at=AT).to_json())
    return (files.write("quote.bin", quote()), "--endorsements", collateral, *LAB, *FRESH)


@pytest.mark.parametrize("entries", [[*GUEST.entries], stripped(GUEST.entries)], ids=["full", "stripped"])
def test_a_log_in_json_is_an_event_log(
    attest: Attest, files: Files, given: tuple[object, ...], entries: list[Entry]
) -> None:
    ran = attest("verify", *given, "--eventlog", files.write("log.json", as_json(entries)), "--json")
    assert ran.code == 0, ran.err
    claims = ran.document["items"][0]["claims"]["eventlog"]
    assert claims["dstack"]["compose_hash"] == COMPOSE_HASH.hex()
    assert ran.check("dstack.replay")["outcome"] == "pass"


def test_a_log_alone_is_for_inspect(attest: Attest, files: Files) -> None:
    log = files.write("log.json", as_json(GUEST.entries))
    assert (attest("verify", log, *LAB).code, attest("inspect", log).code) == (3, 0)


def test_inspect_shows_each_event_of_dstack_with_name_and_payload(attest: Attest, files: Files) -> None:
    (file,) = attest("inspect", files.write("log.json", as_json(GUEST.entries)), "--json").document["files"]
    found: dict[str, Any] = file["event_log"]
    assert (file["form"], found["kind"], found["event_count"]) == ("dstack-json", "dstack", len(GUEST.entries))
    shown = {one["name"]: one for one in found["events"] if "name" in one}
    assert shown["app-id"]["payload"] == "a1" * 20
    assert shown["storage-fs"]["payload"] == "zfs"
    assert "payload" not in shown["system-ready"]
    assert {one["data"] for one in shown.values()} == {"verified"}
    assert found["dstack"]["compose_hash"] == COMPOSE_HASH.hex()


def test_inspect_shows_a_log_with_its_defects(attest: Attest, files: Files) -> None:
    entries = [
        {**entry, "event_payload": "00" * 32} if entry["event"] == "compose-hash" else entry for entry in GUEST.entries
    ]
    (file,) = attest("inspect", files.write("log.json", as_json(entries)), "--json").document["files"]
    assert [one["data"] for one in file["event_log"]["events"] if one.get("name") == "compose-hash"] == [
        "MISMATCH: the digest is of other data"
    ]
    twice = files.write("twice.json", as_json((*GUEST.boot, event("app-id", bytes(20)), event("app-id", bytes(20)))))
    (file,) = attest("inspect", twice, "--json").document["files"]
    assert file["event_log"]["dstack"].startswith("MISMATCH: event 8 (app-id)")
    short = files.write("short.json", as_json(stripped(GUEST.entries)))
    (file,) = attest("inspect", short, "--json").document["files"]
    assert "computed: the log leaves the digest out" in {one["data"] for one in file["event_log"]["events"]}


def test_inspect_shows_answers_and_app_compose(attest: Attest, files: Files) -> None:
    answer = {"quote": quote().hex(), "event_log": as_json(GUEST.entries).decode(), "report_data": REPORT_DATA.hex()}
    compose = APP_COMPOSE[:-1] + ',"docker_compose_file":"services: {web: {image: x}}"}'
    paths = [
        files.write("answer.json", json.dumps(answer).encode()),
        files.write("info.json", json.dumps(info()).encode()),
        files.write("compose.json", compose.encode()),
    ]
    first, second, third = attest("inspect", *paths, "--json").document["files"]
    assert [item["name"] for item in first["evidence"]["items"]] == ["cpu", "eventlog", "dstack"]
    assert first["evidence"]["items"][2]["statements"] == {"report_data": REPORT_DATA.hex()}
    assert second["statements"]["app_name"] == "sample"
    assert len(third["app_compose"]["findings"]) == 1
    assert attest("inspect", files.write("other.json", APP_COMPOSE.encode())).code == 2


def test_the_log_of_a_known_good_boot_names_the_first_event_that_differs(
    attest: Attest, files: Files, given: tuple[object, ...]
) -> None:
    good = GUEST.with_payload("compose-hash", b"\xee" * 32)
    arguments = (
        *given,
        "--eventlog",
        files.write("log.json", as_json(GUEST.entries)),
        "--reference-log",
        files.write("good.json", as_json(good.entries)),
    )
    (register,) = attest("verify", *arguments, "--json").document["reference_log"]["registers"]
    assert (register["register"], register["position"]) == ("RTMR3", 3)
    assert register["expected_event"]["text"] == register["got_event"]["text"] == "compose-hash"


def test_lint_shows_what_an_accepted_app_compose_accepts(attest: Attest, files: Files) -> None:
    policy = POLICIES / "snp-lab-simulated.yaml"
    text = {"docker_compose_file": "services: {web: {image: '${IMAGE}'}}", "allowed_envs": ["IMAGE"]}
    compose = files.write("app-compose.json", json.dumps(text).encode())
    ran = attest("policy", "lint", policy, "--app-compose", compose, "--json")
    (found,) = ran.document["app_composes"]
    assert (ran.code, ran.document["clean"], found["file"]) == (1, False, str(compose))
    assert [finding["rule"] for finding in found["findings"]] == ["image-from-environment", "image-unpinned"]
    page = "".join(attest("policy", "lint", policy, "--app-compose", compose).out.split())
    assert "error:services.web.image" in page
    assert found["compose_hash"] in page
    broken = files.write("broken.json", b"{}")
    assert attest("policy", "lint", policy, "--app-compose", broken).code == 2
