"""Messages of the handshake: request, challenge and attestation. Unknown members are ignored, as clients add some.

Version 0.2.0, which guests of 2024 and 2025 speak, sends evidence and key alone; its setting is ``older_clients``.

Spec: specs/kbs-protocol.md, sections 3, 5, 6 and 21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import AttestError, EvidenceError, UnsupportedError
from attest.kbs import TeeKey, read_tee_key

CURRENT: Final = "0.4.0"
OLDER: Final = "0.2.0"
MAX_ADDITIONAL: Final = 32
"""Kinds of additional evidence."""
_SEMVER: Final = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:[-+][0-9A-Za-z.+-]*)?", re.ASCII)
_TEES: Final = {
    "az-snp-vtpm": "az-snp-vtpm",
    "az-tdx-vtpm": "az-tdx-vtpm",
    "azsnpvtpm": "az-snp-vtpm",
    "aztdxvtpm": "az-tdx-vtpm",
    **{name: name for name in ("sample", "tdx", "sgx", "snp", "cca", "csv", "se", "tpm")},
}
"""TEEs of the protocol by the names that clients use, some older; ``/attest`` refuses those without a verifier."""
NOT_READ: Final = "deserialize Request"
_NOT_SEMVER: Final = "failed to parse KBS version"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthRequest:
    """The body of ``/auth``: the version that the guest speaks, and its TEE by today's name."""

    version: str
    tee: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """The body of ``/attest``.

    Attributes:
        nonce: as text, as the guest received it; None in version 0.2.0, which does not repeat it.
        primary: evidence of the CPU, by the guest's own form.
        additional: the text with the evidence of devices, byte for byte as it is hashed; empty without devices.
        devices: what it contains, by the names of their TEEs.
        init_data: the TOML text of the guest's initialisation data, or None.
    """

    nonce: str | None
    key: TeeKey
    primary: JsonValue
    additional: str
    devices: Mapping[str, JsonValue]
    init_data: str | None


def parse_auth(body: bytes, *, older_clients: bool) -> AuthRequest:
    """Read the body of ``/auth``.

    Raises:
        EvidenceError: ``kbs-request-malformed``.
        UnsupportedError: ``kbs-version-unsupported``, with the text by which clients recognise it.
    """
    members = _object(body, NOT_READ)
    version, tee = (members.get(name) for name in ("version", "tee"))
    if not isinstance(version, str) or not isinstance(tee, str) or tee not in _TEES or "extra-params" not in members:
        expected = "version, tee (one of the protocol's names) and extra-params"
        raise _malformed(NOT_READ, expected=expected)
    if not _SEMVER.fullmatch(version):
        raise _malformed(_NOT_SEMVER, expected=CURRENT)
    if version != CURRENT and not (older_clients and version == OLDER):
        raise UnsupportedError(
            f"KBS Client Protocol Version Mismatch: expect ={CURRENT} while the request is {version[:40]}",
            code="kbs-version-unsupported",
            field="version",
            expected=f"{CURRENT} or {OLDER}" if older_clients else CURRENT,
            got=version[:40],
        )
    return AuthRequest(version=version, tee=_TEES[tee])


def parse_attestation(body: bytes, *, version: str) -> Attestation:
    """Read the body of ``/attest`` in the form of a version.

    Raises:
        EvidenceError: ``kbs-request-malformed`` or ``json-invalid``.
        VerificationError: ``tee-key-invalid``.
    """
    members = _object(body, "deserialize Attestation")
    return _older(members) if version == OLDER else _current(members)


def _current(members: Mapping[str, JsonValue]) -> Attestation:
    runtime, evidence = (_part(members, name) for name in ("runtime-data", "tee-evidence"))
    nonce, additional = runtime.get("nonce"), evidence.get("additional_evidence")
    if not isinstance(nonce, str) or not isinstance(additional, str) or "primary_evidence" not in evidence:
        raise _malformed(
            "deserialize Attestation",
            expected="runtime-data (nonce, tee-pubkey) and tee-evidence (primary_evidence, additional_evidence)",
        )
    return Attestation(
        nonce=nonce,
        key=read_tee_key(runtime.get("tee-pubkey")),
        primary=evidence["primary_evidence"],
        additional=additional,
        devices=_devices(additional),
        init_data=_init_data(members.get("init-data")),
    )


def _older(members: Mapping[str, JsonValue]) -> Attestation:
    if "tee-evidence" not in members:
        raise _malformed("deserialize Attestation", expected="tee-pubkey and tee-evidence")
    return Attestation(
        nonce=None,
        key=read_tee_key(members.get("tee-pubkey")),
        primary=members["tee-evidence"],
        additional="",
        devices={},
        init_data=None,
    )


def _devices(additional: str) -> Mapping[str, JsonValue]:
    if not additional:
        return {}
    found = json_value(additional.encode(), what="additional_evidence")
    if not isinstance(found, dict) or len(found) > MAX_ADDITIONAL:
        raise _malformed("additional_evidence", expected=f"an object of at most {MAX_ADDITIONAL} kinds of devices")
    return found


def _init_data(value: JsonValue) -> str | None:
    if value is None:
        return None
    members = value if isinstance(value, dict) else {}
    body = members.get("body")
    if members.get("format") != "toml" or not isinstance(body, str):
        raise _malformed("init-data", expected="null, or the format toml and a body")
    return body


def _part(members: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    found = members.get(name)
    if not isinstance(found, dict):
        raise _malformed("deserialize Attestation", expected=f"the object {name}")
    return found


def _object(body: bytes, what: str) -> Mapping[str, JsonValue]:
    try:
        found = json_value(body, what=what)
    except AttestError as exc:
        raise _malformed(what, expected="JSON in UTF-8") from exc
    if not isinstance(found, dict):
        raise _malformed(what, expected="an object")
    return found


def _malformed(problem: str, *, expected: str) -> EvidenceError:
    return EvidenceError(
        f"{problem}: expected {expected}",
        code="kbs-request-malformed",
        field="body",
        expected=expected,
        clause="docs/kbs.md",
    )
