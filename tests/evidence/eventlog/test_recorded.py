"""Recorded logs of four machines, and what the manifest says about each and about each change of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attest.errors import AttestError, BindingError, EvidenceError, VerificationError
from attest.evidence.eventlog.content import Verification, require_data
from attest.evidence.eventlog.facts import facts_document, facts_of
from attest.evidence.eventlog.reference import compare_logs
from attest.evidence.eventlog.replay import VerifiedEventLog, replay, require_replay, verify_event_log
from attest.evidence.eventlog.structure import parse_event_log

LOGS = ("live1", "live2", "grub", "alibaba-aael")
Registers = Mapping[str, bytes]
EXPECTED: dict[str, tuple[type[AttestError], set[str]]] = {
    "format": (EvidenceError, {"eventlog-malformed"}),
    "format_or_no_matching_bank": (EvidenceError, {"eventlog-malformed"}),
    "rtmr_mismatch": (BindingError, {"eventlog-register-mismatch"}),
    "rtmr_mismatch_or_format": (BindingError, {"eventlog-register-mismatch"}),
    "event_data_mismatch": (VerificationError, {"eventlog-data-mismatch"}),
}


@pytest.fixture(scope="session")
def manifest(vectors_dir: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((vectors_dir / "ccel/MANIFEST.json").read_text())
    return loaded


def entry(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(vector for vector in manifest["vectors"] if vector["id"] == name)
    return found


def recorded(vectors_dir: Path, name: str) -> bytes:
    return (vectors_dir / "ccel" / name / "ccel.bin").read_bytes()


def quote_registers(quote: bytes) -> Registers:
    """RTMR0 to RTMR3 of a version 4 quote: behind its header of 48 bytes, at 328 of the body."""
    return {f"RTMR{n}": quote[48 + 328 + 48 * n :][:48] for n in range(4)}


def report_registers(report: bytes) -> Registers:
    """RTMR0 to RTMR3 of a TDREPORT: TDINFO stands at 512, the registers at 208 of it."""
    return {f"RTMR{n}": report[512 + 208 + 48 * n :][:48] for n in range(4)}


def verified(data: bytes) -> VerifiedEventLog:
    log = parse_event_log(data)
    return verify_event_log(log, signed=replay(log).values)


@pytest.mark.parametrize("name", LOGS)
def test_a_recorded_log_is_what_the_manifest_says(vectors_dir: Path, manifest: dict[str, Any], name: str) -> None:
    said, data = entry(manifest, name), recorded(vectors_dir, name)
    log = parse_event_log(data)
    assert len(log.events) == said["events_after_header"]
    assert len(data) - log.padding_bytes == said["log_end_offset"]
    assert log.to_bytes() == data[: said["log_end_offset"]]
    types: dict[str, int] = {}
    for event in log.events:
        types[event.type_name.removeprefix("EV_")] = types.get(event.type_name.removeprefix("EV_"), 0) + 1
    assert types == said["event_types"]
    found = {f"mr{n}": value.hex() for n, value in enumerate(replay(log).values.values(), start=1) if any(value)}
    assert found == said["replay_sha384"]
    require_data(log)


def test_the_logs_replay_to_the_registers_of_their_boots(vectors_dir: Path) -> None:
    quote = quote_registers((vectors_dir / "ccel/live2/quote.bin").read_bytes())
    report = report_registers((vectors_dir / "ccel/live1/tdreport.bin").read_bytes())
    verify_event_log(parse_event_log(recorded(vectors_dir, "live2")), signed=quote)
    verify_event_log(parse_event_log(recorded(vectors_dir, "live1")), signed=report)


def changed(data: bytes, recipe: dict[str, Any]) -> bytes:
    result = bytearray(data)
    for step in recipe.get("mutate", []):
        at = step["offset"]
        if "set" in step:
            new = bytes.fromhex(step["set"])
        else:
            mask = bytes.fromhex(step["xor"])
            new = bytes(one ^ two for one, two in zip(result[at : at + len(mask)], mask, strict=True))
        result[at : at + len(new)] = new
    return bytes(result[: recipe.get("truncate", len(result))])


def test_every_change_of_the_manifest_is_refused_as_it_says(vectors_dir: Path, manifest: dict[str, Any]) -> None:
    assert len(manifest["negatives"]) >= 12
    for recipe in manifest["negatives"]:
        base = recorded(vectors_dir, recipe["base"])
        quote = recipe.get("with_quote")
        registers = (
            quote_registers((vectors_dir / "ccel" / quote).read_bytes())
            if quote
            else replay(parse_event_log(base)).values
        )
        kind, codes = EXPECTED[recipe["expect_error"]]
        with pytest.raises(kind) as caught:
            verify_event_log(parse_event_log(changed(base, recipe)), signed=registers)
        assert caught.value.code in codes, recipe["id"]
        if "event_offset" in recipe:
            assert caught.value.offset == recipe["event_offset"], recipe["id"]


@pytest.mark.parametrize("name", LOGS)
def test_every_byte_of_a_recorded_digest_is_needed(vectors_dir: Path, name: str) -> None:
    data = recorded(vectors_dir, name)
    log = parse_event_log(data)
    good, content = replay(log).values, data[: len(data) - log.padding_bytes]
    for event in log.events:
        for at in range(event.offset + 14, event.offset + 62, 1 if name == "live2" else 23):
            flipped = content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :]
            with pytest.raises(BindingError):
                require_replay(parse_event_log(flipped), good)


@pytest.mark.parametrize("name", LOGS)
def test_a_recorded_log_cut_short_is_refused(vectors_dir: Path, name: str) -> None:
    data = recorded(vectors_dir, name)
    log = parse_event_log(data)
    good = replay(log).values
    for event in log.events:
        with pytest.raises(BindingError):
            require_replay(parse_event_log(data[: event.offset]), good)
        for inside in (1, 4, 13, 40, 65):
            with pytest.raises(EvidenceError, match="event log, event"):
                parse_event_log(data[: event.offset + inside])


@pytest.mark.parametrize("name", LOGS)
def test_every_byte_of_verified_data_is_covered(vectors_dir: Path, name: str) -> None:
    data = recorded(vectors_dir, name)
    log = parse_event_log(data)
    for event, how in zip(log.events, require_data(log), strict=True):
        if how is Verification.VERIFIED:
            # Another tag makes it another event, of which nothing is stated; behind the tag every byte counts.
            begins = event.offset + 66 + (4 if event.type_name == "EV_EVENT_TAG" else 0)
            for at in range(begins, event.offset + 66 + len(event.data), 7):
                flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                with pytest.raises(VerificationError) as caught:
                    require_data(parse_event_log(flipped))
                assert caught.value.offset == event.offset


def facts(vectors_dir: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = facts_document(facts_of(verified(recorded(vectors_dir, name))))
    return found


def test_facts_of_a_direct_boot(vectors_dir: Path) -> None:
    found = facts(vectors_dir, "live2")
    assert found["secure_boot"]["enabled"] is False
    assert [found[name][0]["size"] for name in ("pk", "kek", "db", "dbx")] == [0, 0, 0, 0]
    assert [boot["value"][:4] for boot in found["boot_variables"]] == ["0000", "0901"]
    assert (len(found["boot_applications"]), len(found["load_options"]), len(found["initrds"])) == (1, 1, 1)
    assert (found["kernel_command_lines"], found["application_events"]) == ([], [])


def test_facts_of_a_boot_with_shim_and_secure_boot(vectors_dir: Path) -> None:
    found = facts(vectors_dir, "grub")
    assert found["secure_boot"]["enabled"] is True
    assert [authority["name"] for authority in found["authorities"]] == [
        "db", "SbatLevel", "MokListRT", "SbatLevel", "MokListRT",
    ]  # fmt: skip
    assert len(found["other_loader_events"]) == 6


def test_facts_of_a_boot_with_grub_and_application_events(vectors_dir: Path) -> None:
    found = facts(vectors_dir, "alibaba-aael")
    (line,) = found["kernel_command_lines"]
    assert line["text"].startswith("(hd0,gpt3)/boot/vmlinuz-5.10.134-19.1.al8.x86_64 root=UUID=33b46ac5")
    assert (len(found["grub_commands"]), found["grub_commands"][6]["text"]) == (52, "[  ]")
    assert [said["content"] for said in found["application_events"]] == [
        "some-content",
        '{"key": "value", "nested-key": {"sub-key": "value"}}',
    ]


def test_two_boots_of_one_machine_differ_in_what_was_loaded(vectors_dir: Path) -> None:
    one, two = (parse_event_log(recorded(vectors_dir, name)) for name in ("live1", "live2"))
    (difference,) = compare_logs(two, one)
    assert difference.register == "RTMR2"
    assert difference.got is not None
    assert difference.got.type_name == "EV_EVENT_TAG"
