"""Facts come from data that was hashed, from the register where it is measured, and from nothing else."""

import contextlib
import json
from hashlib import sha384
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import VerificationError
from attest.evidence.eventlog.content import Verification
from attest.evidence.eventlog.facts import EventFact, EventLogFacts, facts_document, facts_of
from attest.evidence.eventlog.replay import replay, verify_event_log
from attest.evidence.eventlog.structure import parse_event_log
from tests.evidence.eventlog import writer as w


def facts(*events: bytes) -> EventLogFacts:
    log = parse_event_log(w.log(*events))
    return facts_of(verify_event_log(log, signed=replay(log).values))


def document(*events: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(facts_document(facts(*events))))
    return found


def some(facts: tuple[EventFact, ...] | None) -> tuple[EventFact, ...]:
    """What the log proves, which it does."""
    assert facts is not None
    return facts


def sha(data: bytes) -> str:
    return sha384(data).hexdigest()


def test_a_whole_boot() -> None:
    found = document(*w.boot())
    assert found["event_count"] == 22
    assert found["secure_boot"] == {
        "event": 1,
        "register": "RTMR0",
        "digest": sha(w.variable("SecureBoot", b"\1")),
        "verification": "verified",
        "enabled": True,
    }
    stores = {name: found[name][0] for name in ("pk", "kek", "db", "dbx")}
    assert {name: store["size"] for name, store in stores.items()} == {"pk": 5, "kek": 0, "db": 12, "dbx": 6}
    assert stores["db"]["value_sha384"] == sha(b"certificates")
    (authority,) = found["authorities"]
    assert (authority["name"], authority["value_sha384"]) == ("MokListRT", sha(b"a certificate"))
    assert [(boot["value"], boot["verification"]) for boot in found["boot_variables"]] == [
        ("0100", "value only"),
        (b"option".hex(), "verified"),
    ]
    (application,) = found["boot_applications"]
    assert (application["digest"], application["verification"]) == (sha(b"an image"), "unverified")
    others = [(other["register"], other["digest"]) for other in found["other_firmware_events"]]
    assert ("RTMR1", sha(b"an image")) in others
    assert {register for register, _ in others} == {"RTMR0", "RTMR1"}
    named = {boot["digest"] for boot in found["boot_variables"]}
    assert named.isdisjoint(digest for _, digest in others)
    assert [line["text"] for line in found["kernel_command_lines"]] == ["/vmlinuz quiet"]
    assert [command["text"] for command in found["grub_commands"]] == ["linux /vmlinuz quiet", "boot"]
    assert [options["digest"] for options in found["load_options"]] == [sha(b"quiet")]
    assert [initrd["digest"] for initrd in found["initrds"]] == [sha(b"an initrd")]
    assert [other["digest"] for other in found["other_loader_events"]] == [sha(b"the list"), sha(b"what was run")]
    (said,) = found["application_events"]
    assert (said["domain"], said["operation"], said["content"]) == ("example.org", "load", "model.bin and more")
    assert [other["digest"] for other in found["other_runtime_events"]] == [sha(b"tables")]


def test_a_log_without_events_states_nothing() -> None:
    found = document()
    assert found.pop("event_count") == 0
    assert "secure_boot" not in found
    assert set(found) == {
        *("pk", "kek", "db", "dbx", "authorities", "boot_variables", "boot_applications", "kernel_command_lines"),
        "other_firmware_events",
        *("grub_commands", "load_options", "initrds", "other_loader_events", "application_events"),
        "other_runtime_events",
    }
    assert not any(found.values())


@pytest.mark.parametrize(("value", "enabled"), [(b"\1", True), (b"\0", False), (b"", False)])
def test_the_state_of_secure_boot(value: bytes, enabled: bool) -> None:
    assert document(w.secure_boot(value))["secure_boot"]["enabled"] is enabled


@pytest.mark.parametrize("value", [b"\2", b"\1\1", b"\0\0"])
def test_a_state_of_secure_boot_that_means_nothing_is_not_stated(value: bytes) -> None:
    assert "enabled" not in document(w.secure_boot(value))["secure_boot"]


@pytest.mark.parametrize(
    "events",
    [
        (w.secure_boot(b"\0"), w.secure_boot(b"\1")),
        # Behind the separator the guest itself can extend the register, and write any type beside the digest.
        (w.separator(1), w.secure_boot()),
        (w.event(1, w.POST_CODE, b"relabelled", hashed=bytes(4)), w.secure_boot()),
        (w.event(1, w.SEPARATOR, b"\1\0\0\0"), w.secure_boot()),
        (w.event(2, w.DRIVER_CONFIG, w.variable("SecureBoot", b"\1")),),
        (w.event(0, w.DRIVER_CONFIG, w.variable("SecureBoot", b"\1")),),
        (w.event(1, w.DRIVER_CONFIG, w.variable("SecureBoot", b"\1", w.IMAGE_SECURITY)),),
        (w.event(1, w.AUTHORITY, w.variable("SecureBoot", b"\1")),),
        (w.event(1, w.DRIVER_CONFIG, b"\1"),),
    ],
)
def test_secure_boot_is_not_stated_by_anything_else(events: tuple[bytes, ...]) -> None:
    assert facts(*events).secure_boot is None


def test_events_of_another_register_do_not_end_the_firmwares_part() -> None:
    assert facts(w.separator(2), w.secure_boot()).secure_boot is not None


@pytest.mark.parametrize("index", [1, 2, 4])
def test_texts_of_the_boot_loader_count_in_its_register_only(index: int) -> None:
    found = facts(w.event(index, w.IPL, b"kernel_cmdline: x\0", hashed=b"x"))
    assert found.kernel_command_lines == ()


@pytest.mark.parametrize("index", [1, 2, 3])
def test_application_events_count_in_rtmr3_only(index: int) -> None:
    assert facts(w.event(index, w.TAG, w.aael("a b c"))).application_events == ()


def test_every_event_of_the_boot_loaders_register_is_in_one_list() -> None:
    found = facts(*w.boot())
    lists = (
        found.kernel_command_lines,
        found.grub_commands,
        found.load_options,
        found.initrds,
        found.other_loader_events,
    )
    assert sorted(fact.event for members in lists for fact in some(members)) == list(range(14, 21))


def test_no_text_of_an_unverified_event_is_stated() -> None:
    found = facts(*w.boot())
    lists = (found.boot_applications, found.load_options, found.initrds, found.other_loader_events)
    stated = [fact for members in lists for fact in some(members)]
    assert {fact.verification for fact in stated} == {Verification.UNVERIFIED}
    assert all(fact.values == () for fact in stated)


def test_an_authority_that_cannot_be_read_is_its_digest() -> None:
    (authority,) = some(facts(w.event(1, w.AUTHORITY, b"signature")).authorities)
    assert (authority.values, authority.digest) == ((), sha384(b"signature").digest())


def test_a_boot_variable_is_never_named() -> None:
    (boot,) = some(facts(w.event(2, w.BOOT, w.variable("Boot0001", b"v"), hashed=b"v")).boot_variables)
    assert dict(boot.values) == {"value": b"v".hex()}


KINDS = (w.SEPARATOR, w.TAG, w.IPL, w.DRIVER_CONFIG, w.BOOT, w.AUTHORITY, w.APPLICATION, w.NO_ACTION, 0x77)
DATA = st.one_of(
    st.binary(max_size=40),
    st.tuples(st.sampled_from(("SecureBoot", "db", "")), st.binary(max_size=3)).map(lambda pair: w.variable(*pair)),
    st.text(max_size=20).map(w.aael),
    st.binary(max_size=20).map(lambda text: b"grub_cmd: " + text),
)


@given(st.lists(st.builds(w.event, st.integers(0, 4), st.sampled_from(KINDS), DATA), max_size=6))
def test_any_log_that_is_verified_has_facts_that_json_can_carry(events: list[bytes]) -> None:
    with contextlib.suppress(VerificationError):
        assert document(*events)["event_count"] == len(events)
