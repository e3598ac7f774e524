"""The log as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from attest.encoding import JsonValue
from attest.release import DEFAULT_TENANT
from kms.domain.log_entries import LogEntry


def entry_members(entry: LogEntry) -> dict[str, JsonValue]:
    """Return an entry as hashed, and its hash."""
    return {"entry": dict(entry.document()), "hash": entry.leaf_hash.hex()}


def text_line(document: Mapping[str, JsonValue]) -> str:
    """Return an entry as one line of text."""
    kind = str(document.get("kind"))
    if kind == "decision":
        what = _decision(document)
    elif kind.endswith("-attested"):
        what = _attestation(document)
    else:
        named = [str(document[name]) for name in ("policy_sha256", "identity") if name in document]
        what = " ".join([*_key(document), *named, *_floor(document), *_references(document)])
    return f"{document.get('seq'):6}  {document.get('time')}  {kind}  {what}"


def _key(document: Mapping[str, JsonValue]) -> list[str]:
    tenant, key_id = document.get("tenant", DEFAULT_TENANT), document.get("key_id")
    if key_id is None:
        return [] if "tenant" not in document else [str(tenant)]
    return [str(key_id) if tenant == DEFAULT_TENANT else f"{tenant}/{key_id}"]


def _floor(document: Mapping[str, JsonValue]) -> list[str]:
    if document.get("kind") != "floor-changed":
        return []
    return [f"{document.get('scope')} version {document.get('version')} {document.get('change')}"]


def _references(document: Mapping[str, JsonValue]) -> list[str]:
    rows = document.get("references")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [f"{row.get('name')}@{row.get('version')}" for row in found]


def _decision(document: Mapping[str, JsonValue]) -> str:
    requested, wire = document.get("requested"), document.get("via")
    asked = ",".join(map(str, requested)) if isinstance(requested, list) else "?"
    via = [] if wire in {None, "native"} else [f"via {wire}"]
    caller = document.get("asked_by")
    by = [f"by {caller.get('name')}"] if isinstance(caller, dict) else []
    return " ".join([str(document.get("outcome")), asked, *via, *by, *_simulated(document), *_codes(document)])


def _attestation(document: Mapping[str, JsonValue]) -> str:
    tee = [] if document.get("tee") is None else [str(document["tee"])]
    return " ".join([str(document.get("outcome")), *tee, *_simulated(document), *_codes(document)])


def _simulated(document: Mapping[str, JsonValue]) -> list[str]:
    return ["SIMULATED"] if document.get("simulated") is True else []


def _codes(document: Mapping[str, JsonValue]) -> list[str]:
    reasons = document.get("reasons")
    rows = [one for one in reasons if isinstance(one, dict)] if isinstance(reasons, list) else []
    return [*dict.fromkeys(str(one.get("code")) for one in rows)]
