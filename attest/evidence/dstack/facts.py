"""Facts of a dstack log that replays: app, compose hash, instance, image, and the provider of the keys.

Only the events in front of ``system-ready`` are dstack's own; an application may extend the register afterwards with
any event. No digest covers the type of an event, and that of version 1 does not say where its name ends. So the
reading stops at the first event that is no event of dstack for certain: ``system-ready`` itself can be relabelled on
the way.

A fact is true of a guest whose firmware, kernel and root file system are dstack's: MRTD and RTMR0 to RTMR2 show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attest.encoding import JsonValue, hex_bytes, json_value
from attest.errors import EvidenceError, VerificationError
from attest.evidence.dstack.structure import RUNTIME_REGISTER, DstackEvent, ParsedDstackLog
from attest.evidence.eventlog.facts import facts_document, facts_of
from attest.evidence.eventlog.replay import VerifiedEventLog

_CLAUSE = "dstack events of RTMR3"
_CHECK = "dstack.events"
_READY = "system-ready"
_COMPOSE_HASH, _BOOT_DONE = "compose-hash", "boot-mr-done"
_INIT_SCRIPT, _KEY_PROVIDER, _GPU_ATTESTATION = "init-script-hash", "key-provider", "gpu-attestation"
_PAYLOAD_BYTES: Mapping[str, tuple[int, ...]] = {
    "system-preparing": (0,),
    "app-id": (20,),
    _COMPOSE_HASH: (32,),
    "instance-id": (20, 0),
    _BOOT_DONE: (0,),
    "mr-kms": (32,),
    "os-image-hash": (32,),
    _READY: (0,),
}
"""Payload sizes of the events that have a fixed one; an instance without an id has an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProvider:
    """The party that gave the guest its keys.

    Attributes:
        name: ``kms``, ``local-sgx``, ``tpm`` or ``none``; newer versions may have others.
        id: of a KMS the SubjectPublicKeyInfo (DER) of its root CA.
    """

    name: str
    id: bytes

    def __str__(self) -> str:
        return f"{self.name}:{self.id.hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackFacts:
    """Everything that the events of dstack state. None: the log has no such event.

    Attributes:
        app_id: 20 bytes, chosen at deployment; it stays the same after an update.
        compose_hash: SHA-256 of app-compose.
        instance_id: 20 bytes; names a disk, not a chip.
        os_image_hash: as the host named it to the guest; MRTD and RTMR0 to RTMR2 prove an image, this names it.
        mr_kms: of older versions, the measurement of the KMS.
        gpu_attestation: JSON text.
        init_script_hashes: in the order measured; empty unless the reading came to ``system-ready``.
        sources: the event that each fact was read from, by the name of the fact.
    """

    app_id: bytes | None = None
    compose_hash: bytes | None = None
    instance_id: bytes | None = None
    os_image_hash: bytes | None = None
    key_provider: KeyProvider | None = None
    mr_kms: bytes | None = None
    gpu_policy_hash: bytes | None = None
    gpu_attestation: str | None = None
    init_script_hashes: tuple[bytes, ...] = ()
    sources: tuple[tuple[str, DstackEvent], ...] = ()


_DIGESTS = {
    "app-id": "app_id",
    _COMPOSE_HASH: "compose_hash",
    "instance-id": "instance_id",
    "os-image-hash": "os_image_hash",
    "mr-kms": "mr_kms",
    "gpu-policy-hash": "gpu_policy_hash",
}
_NAMES = {**_DIGESTS, _KEY_PROVIDER: "key_provider", _GPU_ATTESTATION: "gpu_attestation"}


def read_facts(log: ParsedDstackLog) -> DstackFacts:
    """Read the facts of a log whose replay is checked elsewhere.

    Raises:
        VerificationError: ``dstack-event-invalid``: an event is duplicated, has another size than such an event has, or
            is in the wrong place.

    Spec: specs/dstack.md, section 3.
    """
    events: dict[str, DstackEvent] = {}
    scripts: list[DstackEvent] = []
    for event in _events_of_dstack(log):
        _require_size(event)
        if event.name == _INIT_SCRIPT:
            scripts.append(event)
        elif event.name in events:
            raise _invalid(event, "each event once in front of system-ready", "the same name twice")
        elif event.name == _COMPOSE_HASH and _BOOT_DONE in events:
            raise _invalid(event, f"{_COMPOSE_HASH} in front of {_BOOT_DONE}", "the other order")
        else:
            events[event.name] = event
    values = {fact: events[name].payload or None for name, fact in _DIGESTS.items() if name in events}
    provider, gpu = events.get(_KEY_PROVIDER), events.get(_GPU_ATTESTATION)
    return DstackFacts(
        **values,
        key_provider=None if provider is None else _key_provider(provider),
        gpu_attestation=None if gpu is None else _text(gpu),
        # An incomplete list is not used: a relabelled event can end the reading early.
        init_script_hashes=tuple(script.payload for script in scripts) if _READY in events else (),
        sources=tuple((fact, events[name]) for name, fact in _NAMES.items() if name in events and events[name].payload),
    )


def _events_of_dstack(log: ParsedDstackLog) -> Iterator[DstackEvent]:
    """Yield the events up to the first one that may be another's."""
    for event in log.events:
        if event.register != RUNTIME_REGISTER:
            continue
        if not event.is_runtime or (event.version == 1 and ":" in event.name):
            return
        yield event
        if event.name == _READY:
            return


def _require_size(event: DstackEvent) -> None:
    sizes = _PAYLOAD_BYTES.get(event.name)
    if sizes is not None and len(event.payload) not in sizes:
        raise _invalid(event, f"{' or '.join(map(str, sizes))} bytes of payload", f"{len(event.payload)}")


def _text(event: DstackEvent) -> str:
    try:
        return event.payload.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _invalid(event, "text", "other bytes") from exc


def _key_provider(event: DstackEvent) -> KeyProvider:
    provider = key_provider_of(_text(event))
    if provider is None:
        raise _invalid(event, "JSON with name and id, the id in hex", "something else")
    return provider


def key_provider_of(text: str) -> KeyProvider | None:
    """Read a key provider as dstack writes it, in JSON; None for other text."""
    try:
        match json_value(text.encode(), what=_KEY_PROVIDER):
            case {"name": str(name), "id": str(identity)}:
                return KeyProvider(name=name, id=hex_bytes(identity, what=_KEY_PROVIDER))
            case _:
                return None
    except EvidenceError:
        return None


def _invalid(event: DstackEvent, expected: str, got: str) -> VerificationError:
    return VerificationError(
        f"event {event.number} ({event.name}) of the dstack event log: expected {expected}, got {got}",
        code="dstack-event-invalid",
        check=_CHECK,
        field=f"events[{event.number - 1}]",
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )


def dstack_facts_of(verified: VerifiedEventLog) -> DstackFacts:
    """Return the facts of a verified log; none for a log that is not dstack's."""
    return read_facts(verified.log) if isinstance(verified.log, ParsedDstackLog) else DstackFacts()


# -- as JSON


def log_document(verified: VerifiedEventLog) -> dict[str, JsonValue]:
    """Return the facts of a verified log, of either form, as ``claims.eventlog`` has them."""
    document, log = facts_document(facts_of(verified)), verified.log
    if not isinstance(log, ParsedDstackLog):
        return document
    return {**document, "form": log.form, "events": len(log.events), "dstack": dstack_document(read_facts(log))}


def dstack_document(facts: DstackFacts) -> dict[str, JsonValue]:
    """Return the facts as ``claims.eventlog.dstack`` has them; what the log does not state is absent."""
    found: dict[str, JsonValue] = {}
    for name in _DIGESTS.values():
        value: bytes | None = getattr(facts, name)
        if value is not None:
            found[name] = value.hex()
    if facts.key_provider is not None:
        found["key_provider"] = {"name": facts.key_provider.name, "id": facts.key_provider.id.hex()}
    if facts.gpu_attestation is not None:
        found["gpu_attestation"] = facts.gpu_attestation
    if facts.init_script_hashes:
        found["init_script_hashes"] = [digest.hex() for digest in facts.init_script_hashes]
    found["sources"] = {name: _source(event) for name, event in facts.sources}
    return found


def _source(event: DstackEvent) -> JsonValue:
    return {"event": event.number, "register": event.register, "digest": event.digest.hex()}
