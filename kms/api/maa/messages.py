"""Requests for tokens, read strictly: evidence, runtime data, initialisation data, and a nonce of the guest.

Spec: specs/azure-skr.md, section 11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from attest import Evidence, read_evidence
from attest.encoding import JsonValue, base64url_bytes, json_value
from attest.errors import EvidenceError, UnsupportedError
from kms.api.body import MAX_VALUES

API_VERSIONS: Final = frozenset({"2020-10-01", "2022-08-01", "2025-06-01"})
MAX_DATA_BYTES: Final = 64 * 1024
"""Longest runtime data or initialisation data."""
MAX_NONCE_CHARACTERS: Final = 512
LARGEST_NONCE: Final = 2**64 - 1
_MEMBERS: Final = ("runtimeData", "initTimeData", "nonce", "draftPolicyForAttestation")
_DATA: Final = ("runtimeData", "initTimeData")
_JSON, _BINARY = "JSON", "Binary"
_CLAUSE: Final = "docs/maa.md"
Tee = Literal["sevsnpvm", "tdxvm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeeRequest:
    """Evidence of a TEE in a request: the member that holds it, and its form and kind here."""

    member: str
    form: str
    kind: str


TEES: Final[Mapping[Tee, TeeRequest]] = {
    "sevsnpvm": TeeRequest(member="report", form="snp-extended", kind="sev-snp"),
    "tdxvm": TeeRequest(member="quote", form="tdx-quote", kind="tdx"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenData:
    """Data that the guest gave; ``value`` is its object if it said that it is JSON, else None."""

    content: bytes
    value: Mapping[str, JsonValue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestRequest:
    """A request for a token.

    Attributes:
        nonce: the guest's, as text; nothing binds it.
    """

    evidence: Evidence
    runtime: GivenData
    init_time: GivenData | None
    nonce: str | None


def require_version(query: Mapping[str, str]) -> None:
    """Require a known version of the interface.

    Raises:
        EvidenceError: ``maa-version-unsupported``.
    """
    found = query.get("api-version", "")
    if found not in API_VERSIONS:
        raise UnsupportedError(
            f"the api-version {found[:40]!r} is not supported",
            code="maa-version-unsupported",
            field="api-version",
            expected=" or ".join(sorted(API_VERSIONS)),
            got=found[:40] or "none",
            clause=_CLAUSE,
        )


def parse_request(body: bytes, tee: Tee) -> AttestRequest:
    """Read a request.

    Raises:
        EvidenceError: ``maa-request-malformed``, ``json-invalid``, ``base64-invalid``, or the evidence is malformed.
        UnsupportedError: ``maa-draft-policy-unsupported``, or evidence that is not verified here.
    """
    document = json_value(body, what="request", most=MAX_VALUES)
    members = document if isinstance(document, dict) else _refuse("request", "an object")
    known = {TEES[tee].member, *_MEMBERS}
    if unknown := set(members) - known:
        _refuse(min(unknown)[:60], f"only {', '.join(sorted(known))}")
    _require_no_draft(members.get("draftPolicyForAttestation"))
    runtime, init_time = (_given(members, name) for name in _DATA)
    if runtime is None:
        _refuse("runtimeData", "data that the report commits to")
    nonce = _nonce(members.get("nonce"))
    evidence = _evidence(members, TEES[tee])
    return AttestRequest(evidence=evidence, runtime=runtime, init_time=init_time, nonce=nonce)


def _evidence(members: Mapping[str, JsonValue], tee: TeeRequest) -> Evidence:
    """Read the evidence, with the data that it commits to as an item of its own."""
    if not isinstance(members.get(tee.member), str):
        _refuse(tee.member, "base64url")
    kept: dict[str, JsonValue] = {name: members[name] for name in (tee.member, *_DATA) if members.get(name) is not None}
    return read_evidence([("request", json.dumps(kept).encode())], form=tee.form).evidence


def _given(members: Mapping[str, JsonValue], name: str) -> GivenData | None:
    """Read data; empty data is none, as the container sidecar writes it."""
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"data", "dataType"}:
        _refuse(name, "an object with data and dataType")
    text, kind = value["data"], value["dataType"]
    if not isinstance(text, str) or not isinstance(kind, str):
        _refuse(name, "texts as data and dataType")
    if not text:
        return None
    if kind not in {_JSON, _BINARY}:
        _refuse(f"{name}.dataType", f"{_JSON} or {_BINARY}")
    content = base64url_bytes(text.rstrip("=").replace("+", "-").replace("/", "_"), what=name)
    if len(content) > MAX_DATA_BYTES:
        _refuse(f"{name}.data", f"at most {MAX_DATA_BYTES} bytes")
    return GivenData(content=content, value=_object(content, name) if kind == _JSON else None)


def _object(content: bytes, name: str) -> Mapping[str, JsonValue]:
    found = json_value(content, what=name, most=MAX_VALUES)
    return found if isinstance(found, dict) else _refuse(f"{name}.data", "a JSON object, as dataType says")


def _nonce(value: JsonValue) -> str | None:
    """Read a nonce: a text, or a number, which becomes its decimal digits."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_NONCE:
        return str(value)
    if isinstance(value, str) and len(value) <= MAX_NONCE_CHARACTERS and value.isprintable():
        return value
    return _refuse("nonce", f"a number up to {LARGEST_NONCE}, or at most {MAX_NONCE_CHARACTERS} printable characters")


def _require_no_draft(value: JsonValue) -> None:
    if value is not None and value != "":
        raise UnsupportedError(
            "this service does not evaluate MAA's policy language; its operator has a policy of its own",
            code="maa-draft-policy-unsupported",
            field="draftPolicyForAttestation",
            expected="no draft policy",
            got="one",
            clause=_CLAUSE,
        )


def _refuse(field: str, expected: str) -> NoReturn:
    raise EvidenceError(
        f"{field}: expected {expected}",
        code="maa-request-malformed",
        field=field,
        expected=expected,
        clause=_CLAUSE,
    )
