"""dstack's log and statements beside a quote: page and Python say the same, whatever is changed in them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from attest.encoding import JsonValue
from attest.evidence.keccak import keccak256
from attest_simulator.intel import SimulatedTd
from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent
from tests.evidence.dstack.made import (
    APP_COMPOSE,
    APP_ID,
    COMPOSE_HASH,
    GUEST,
    KEY_ID,
    Entry,
    Guest,
    event,
    stripped,
)
from tests.evidence.dstack.test_statements import document, info, put
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.samples import AT
from tests.samples_intel import intel_scene

pytestmark = pytest.mark.loopback
MOMENT = AT.isoformat().replace("+00:00", "Z")
SCENE = intel_scene()
REPORT_DATA = b"\x55" * 64
SECOND_VERSION = b"\2" + keccak256(COMPOSE_HASH + APP_ID + b"\2" + KEY_ID) + bytes(15)


def td(guest: Guest) -> SimulatedTd:
    """Return a TD whose registers and configuration are those of a made guest."""
    entries = tuple(
        LogEntry(
            index=entry["imr"] + 1,
            event=MeasuredEvent(kind=entry["event_type"], data=b"", digest=bytes.fromhex(entry["digest"])),
        )
        for entry in guest.entries
    )
    return replace(SCENE.td, log=entries, mr_config_id=guest.mr_config_id, mr_td=b"\x77" * 48)


class Asked:
    """Questions about one guest each, and the files that they name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"collateral": SCENE.platform.collateral("tdx", at=AT).to_json()}
        self.questions: dict[str, Question] = {}

    def ask(
        self, name: str, *beside: object, guest: Guest = GUEST, log: object = None, eventlog: bytes | None = None
    ) -> None:
        """Ask about a quote with a log in an answer of GetQuote, or beside it, and with these other files."""
        quote = td(guest).quote(REPORT_DATA)
        if eventlog is None:
            entries = json.dumps(guest.entries) if log is None else log
            first = json.dumps({"quote": quote.hex(), "event_log": entries, "report_data": REPORT_DATA.hex()}).encode()
        else:
            first = quote
            self.files[f"{name}, log"] = eventlog
        names = [f"{name}, {number}" for number in range(len(beside) + 1)]
        for file, content in zip(names, (first, *beside), strict=True):
            self.files[file] = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.questions[name] = Question(
            input=names,
            at=MOMENT,
            endorsements=["collateral"],
            event_log=None if eventlog is None else f"{name}, log",
            anchors="simulation",
        )

    def codes(self, page: Verifier) -> dict[str, str]:
        """Ask both, demand that they agree, and return ``verified`` or the code of the refusal."""
        page.hold(self.files)
        answers = page.ask_all(self.questions.values())
        pairs = list(zip(self.questions.items(), answers, strict=True))
        wrong = {
            name: found for (name, question), got in pairs if (found := differences(answer(question, self.files), got))
        }
        assert wrong == {}
        return {name: got["error"]["code"] if got["error"] else "verified" for (name, _), got in pairs}


def changed(at: int, **members: object) -> str:
    """Return the log with other members in one of its events."""
    entries: list[Entry] = [*GUEST.entries]
    entries[at] = {**entries[at], **members}
    return json.dumps(entries)


def test_guests_and_what_is_wrong_with_them_get_one_verdict(in_browser: Verifier) -> None:
    asked = Asked()
    asked.ask("honest")
    asked.ask("an array", log=[*GUEST.entries])
    asked.ask("stripped", log=json.dumps(stripped(GUEST.entries)))
    asked.ask("info and app-compose", {**info(), "mr_aggregated": ""} | {"tcb_info": {}}, APP_COMPOSE.encode())
    asked.ask("whole info", info())
    asked.ask("another app-compose", b'{"manifest_version":2,"runner":"docker-compose"}')
    asked.ask("version 2", guest=replace(GUEST, mr_config_id=SECOND_VERSION))
    asked.ask("version 2 of another app", guest=replace(GUEST.without("app-id"), mr_config_id=SECOND_VERSION))
    asked.ask("version 3", guest=replace(GUEST, mr_config_id=b"\3" + bytes(46) + b"\1"))
    asked.ask("version 4", guest=replace(GUEST, mr_config_id=b"\4" + bytes(46) + b"\1"))
    asked.ask("no configuration", guest=replace(GUEST, mr_config_id=bytes(48)))
    asked.ask("events of version 2", guest=replace(GUEST, runtime=(event("app-id", APP_ID, version=2),)))
    asked.ask("a name in another script", guest=GUEST.with_event(2, event('имя \u2028"\\\x7f\n', version=2)))
    asked.ask("a colon", guest=GUEST.with_event(2, event("a:b")))
    asked.ask("twice", guest=GUEST.with_event(2, event("app-id", APP_ID)))
    asked.ask("late", guest=GUEST.without("compose-hash").with_event(9, event("compose-hash", COMPOSE_HASH)))
    asked.ask("no instance", guest=GUEST.with_payload("instance-id", b""))
    asked.ask("no provider", guest=GUEST.with_payload("key-provider", b"{}"))
    asked.ask("no text", guest=GUEST.with_payload("gpu-attestation", b"\xff"))
    codes = asked.codes(in_browser)
    verified = {name for name, code in codes.items() if code == "verified"}
    assert verified == {
        *("honest", "an array", "stripped", "no instance", "version 2", "version 3", "info and app-compose"),
        *("no configuration", "events of version 2", "a name in another script", "a colon", "whole info"),
    }
    assert codes["another app-compose"] == "dstack-compose-mismatch"
    assert codes["version 4"] == "dstack-config-id-unknown"
    assert codes["twice"] == codes["late"] == codes["no provider"] == codes["no text"] == "dstack-event-invalid"


def test_logs_and_what_is_wrong_with_them_get_one_verdict(in_browser: Verifier) -> None:
    asked, first = Asked(), len(GUEST.boot)
    asked.ask("a payload", log=changed(first + 2, event_payload="ab" * 32))
    asked.ask("a firmware's payload", log=changed(1, event_payload="ab" * 32))
    asked.ask("another type", log=changed(first + 2, event_type=5))
    asked.ask("a register", log=changed(first, imr=4))
    asked.ask("a version", log=changed(first, version=3))
    asked.ask("no digest", log=changed(0, digest=""))
    asked.ask("nothing", log="[]")
    asked.ask("no log", log="")
    asked.ask("beside", eventlog=json.dumps(GUEST.entries).encode())
    asked.ask("beside, as text", eventlog=json.dumps(json.dumps(GUEST.entries)).encode())
    asked.ask("beside, cut", eventlog=json.dumps(GUEST.entries).encode()[:-1])
    asked.ask("two infos", info(), info())
    codes = asked.codes(in_browser)
    # An event of another type states nothing, and nothing behind it does.
    assert {name for name, code in codes.items() if code == "verified"} == {"another type", "beside", "beside, as text"}
    assert codes["a payload"] == "dstack-event-mismatch"
    assert codes["two infos"] == "evidence-ambiguous"


def places(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every member of a document, also within text that is JSON."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    if isinstance(value, dict):
        for name, member in value.items():
            inner = f"{path}.{name}" if path else name
            yield inner
            yield from places(member, inner)


def test_statements_that_are_changed_or_retyped_get_one_verdict(in_browser: Verifier) -> None:
    asked, whole = Asked(), document()["info"]
    for path in places(whole):
        values: dict[str, JsonValue] = {"null": None, "number": 7, "text": "00", "zeros": "00" * 32, "list": [1]}
        for name, value in values.items():
            asked.ask(f"{path}: {name}", put(whole, path, value))
    codes = set(asked.codes(in_browser).values())
    assert {"verified", "dstack-malformed", "dstack-statement-mismatch", "dstack-log-malformed"} <= codes


def test_logs_with_any_character_changed_get_one_verdict(in_browser: Verifier) -> None:
    asked, random = Asked(), Random(19)
    text = json.dumps(GUEST.entries).encode()
    for number in range(300):
        at = random.randrange(len(text))
        asked.ask(f"{number}", eventlog=text[:at] + bytes([text[at] ^ 1 << random.randrange(7)]) + text[at + 1 :])
    assert {"verified", "dstack-log-malformed"} <= set(asked.codes(in_browser).values())


def test_forms_that_are_not_read_are_refused_alike(in_browser: Verifier) -> None:
    asked = Asked()
    forms = {
        "log": json.dumps(GUEST.entries).encode(),
        "scale": b'{"attestation": "00"}',
        "msgpack": b"\x82\xa8platform\xa3tdx\xa5stack\xa6dstack",
        "msgpack, long": b"\xde\x00\x01\xd9\x05stack\xa6dstack",
    }
    asked.files |= forms
    asked.questions = {name: Question(input=[name], at=MOMENT, anchors="simulation") for name in forms}
    assert set(asked.codes(in_browser).values()) == {"evidence-unsupported"}


def test_recorded_machines_get_one_verdict(in_browser: Verifier, vectors_dir: Path) -> None:
    folder = vectors_dir / "providers"
    files = {"answer": (folder / "near-direct" / "getquote.json").read_bytes()}
    files["compose"] = (folder / "near-direct" / "app-compose.json").read_bytes()
    files["info"] = json.dumps(json.loads((folder / "near-direct" / "report.json").read_text())["info"]).encode()
    files["recorded collateral"] = (folder / "collateral" / "tdx-90c06f000000-2026-06-29.json").read_bytes()
    in_browser.hold(files)
    question = Question(
        input=["answer", "compose", "info"],
        at="2026-06-29T02:06:38Z",
        endorsements=["recorded collateral"],
        anchors="vendors",
    )
    (got,) = in_browser.ask_all([question])
    assert differences(answer(question, files), got) == [], got["error"]
    assert got["outcome"] == "verified"
