"""A dstack guest made for tests: its event log in JSON, and the TD report that it replays to."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256, sha384
from typing import Any

from attest.evidence.dstack.judgement import DstackJudgement, judge_dstack
from attest.evidence.dstack.statements import NO_STATEMENTS, DstackStatements
from attest.evidence.dstack.structure import ParsedDstackLog, parse_dstack_log
from attest.evidence.tdx.structure import ParsedTdReport, layout_of_type, parse_td_report

Entry = dict[str, Any]
RUNTIME = 0x08000001
APP_COMPOSE = '{"manifest_version":2,"name":"sample","runner":"docker-compose"}'
COMPOSE_HASH = sha256(APP_COMPOSE.encode()).digest()
APP_ID, INSTANCE_ID, IMAGE, MR_KMS = (bytes([n]) * size for n, size in ((0xA1, 20), (0xB2, 20), (0xC3, 32), (0xD4, 32)))
KEY_ID = bytes.fromhex("3059aabb")
KEY_PROVIDER = json.dumps({"name": "kms", "id": KEY_ID.hex()}).encode()
CONFIG_ID = b"\1" + COMPOSE_HASH + bytes(15)
_SECURE_BOOT_DATA = (
    bytes.fromhex("61dfe48bca93d211aa0d00e098032b8c")
    + (10).to_bytes(8, "little")
    + (1).to_bytes(8, "little")
    + "SecureBoot".encode("utf-16-le")
    + b"\1"
)


def measured(kind: int, data: bytes, *, imr: int, covered: bytes | None = None) -> Entry:
    """Return an event of the firmware; its digest covers the data, or other bytes."""
    digest = sha384(data if covered is None else covered).hexdigest()
    return {"imr": imr, "event_type": kind, "digest": digest, "event": "", "event_payload": data.hex()}


def event(name: str, payload: bytes = b"", *, version: int = 1) -> Entry:
    """Return an event of dstack."""
    if version == 1:
        covered = RUNTIME.to_bytes(4, "little") + b":" + name.encode() + b":" + payload
    else:
        covered = (
            f'{{"name":{json.dumps(name, ensure_ascii=False)},"payload":"{payload.hex()}","type":{RUNTIME}}}'.encode()
        )
    made: Entry = {
        "imr": 3,
        "event_type": RUNTIME,
        "digest": sha384(covered).hexdigest(),
        "event": name,
        "event_payload": payload.hex(),
    }
    return made if version == 1 else {**made, "version": 2, "preimage": covered.hex()}


BOOT: tuple[Entry, ...] = (
    measured(0x8000000B, b"td hob", imr=0, covered=b"the list itself"),
    measured(0x80000001, _SECURE_BOOT_DATA, imr=0),
    measured(4, bytes(4), imr=0),
    measured(0x80000003, b"path", imr=1, covered=b"kernel"),
    measured(0x80000007, b"Calling EFI Application from Boot Option", imr=1),
    measured(6, bytes.fromhex("ed223b8f") + b"\0\0\0\0", imr=2, covered=b"command line"),
)
RUNTIME_EVENTS: tuple[Entry, ...] = (
    event("system-preparing"),
    event("app-id", APP_ID),
    event("compose-hash", COMPOSE_HASH),
    event("init-script-hash", b"\x01" * 32),
    event("init-script-hash", b"\x02" * 32),
    event("gpu-policy-hash", b"\x03" * 32),
    event("gpu-attestation", b'{"count":1}'),
    event("instance-id", INSTANCE_ID),
    event("boot-mr-done"),
    event("mr-kms", MR_KMS),
    event("os-image-hash", IMAGE),
    event("key-provider", KEY_PROVIDER),
    event("storage-fs", b"zfs"),
    event("system-ready"),
)


def stripped(entries: Iterable[Entry]) -> list[Entry]:
    """Return the log without digests of dstack's events and without payloads of the others."""
    return [
        {**entry, "digest": ""} if entry["event_type"] == RUNTIME else {**entry, "event_payload": ""}
        for entry in entries
    ]


def registers(entries: Iterable[Entry]) -> tuple[bytes, ...]:
    """Return the values that the digests of a full log lead to."""
    values = [bytes(48)] * 4
    for entry in entries:
        values[entry["imr"]] = sha384(values[entry["imr"]] + bytes.fromhex(entry["digest"])).digest()
    return tuple(values)


def parsed(entries: Iterable[Entry]) -> ParsedDstackLog:
    """Return a log as it is read."""
    return parse_dstack_log(json.dumps([*entries]).encode())


@dataclass(frozen=True, kw_only=True)
class Guest:
    """A guest with this log; the report is what hardware would state of it."""

    boot: tuple[Entry, ...] = BOOT
    runtime: tuple[Entry, ...] = RUNTIME_EVENTS
    mr_config_id: bytes = CONFIG_ID
    fields: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The whole log."""
        return (*self.boot, *self.runtime)

    @property
    def report(self) -> ParsedTdReport:
        """The TD report after these events."""
        layout = layout_of_type(2)
        values: dict[str, Any] = {row.name: bytes(row.size) if row.kind == "bytes" else 0 for row in layout.fields}
        values |= {f"rtmr{n}": value for n, value in enumerate(registers(self.entries))}
        values |= {"mr_config_id": self.mr_config_id, "mr_td": b"\x77" * 48, "report_data": b"\x55" * 64, **self.fields}
        return parse_td_report(layout.encode(values), body_type=2)

    def judge(
        self, entries: Iterable[Entry] | None = None, statements: DstackStatements = NO_STATEMENTS
    ) -> DstackJudgement:
        """Judge a log, by default the guest's own, by the report of this guest."""
        log = parsed(self.entries if entries is None else entries)
        return judge_dstack(report=self.report, log=log, statements=statements)

    def with_event(self, at: int, new: Entry) -> "Guest":
        """Return the guest that had one more event, in front of the one at this place of its runtime events."""
        return replace(self, runtime=(*self.runtime[:at], new, *self.runtime[at:]))

    def with_payload(self, name: str, payload: bytes) -> "Guest":
        """Return the guest whose event of this name has another payload."""
        return replace(self, runtime=tuple(event(name, payload) if e["event"] == name else e for e in self.runtime))

    def without(self, *names: str) -> "Guest":
        """Return the guest that never had these events."""
        return replace(self, runtime=tuple(e for e in self.runtime if e["event"] not in names))


GUEST = Guest()
